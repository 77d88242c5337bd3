"""Finding a compiler, compiling with it, and what is said where that fails."""

import ctypes
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tegg.backends.cpu import library, threads, toolchain
from tegg.backends.cpu.toolchain import Toolchain, find

from tegg.cache import Cache
from tegg.cores import available
from tegg.errors import BackendError

EXPORT = '__attribute__((visibility("default"))) '


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", 1 << 30)


@pytest.fixture
def fresh():
    """Forget which compiler was found, before and after."""
    toolchain._find.cache_clear()
    yield
    toolchain._find.cache_clear()


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_compiler_found_compiles_for_this_cpu(cache):
    found = find()
    path = found.shared_object(cache, {"a": EXPORT + "int answer(void) { return TWO * 21; }"
                                       .replace("TWO", "2")}, "a test")
    assert ctypes.CDLL(str(path)).answer() == 42
    assert found.version.split()[0] in ("gcc", "clang") and found.features
    assert found.version in found.identity() and found.macros in found.identity()


@pytest.mark.parametrize("macros, whole", [
    ({"__AVX2__": "1"}, False), ({"__AVX2__": "1", "__AVX512F__": "1"}, True),
    ({"__ARM_NEON": "1"}, False)])
def test_loops_over_lanes_fill_registers(macros, whole):
    """Where they are of 64 bytes: for some processors compilers would take half of one."""
    found = toolchain._accept(("cc",), (), {"__GNUC__": "12", **macros})
    assert ("-mprefer-vector-width=512" in found.flags) == whole


def test_a_loop_over_lanes_is_one_instruction(tmp_path):
    found = find()
    if "avx512f" not in found.features:
        pytest.skip("the CPU has no AVX-512")
    source, made = tmp_path / "a.c", tmp_path / "a.s"
    source.write_text(library.prelude(16)
                      + "\nvoid f(float *x) { vf_store(x, vf_floor(vf_load(x))); }")
    subprocess.run([*found.command, *found.flags, "-S", "-o", made, source], check=True)
    assert len(re.findall(r"vrndscaleps\s.*%zmm", made.read_text())) == 1


def test_values_keep_their_meaning(cache):
    """NaN, infinities and -0.0 survive, and a product is rounded before it is added to."""
    text = EXPORT + """int f(double x, double y, double z) {
        volatile double nan = x - x;  // x is infinite
        return (nan != nan) + 2 * (x + 1 == x) + 4 * (1 / (y * 0.0) < 0)
               + 8 * (z * z - 1 == 0); }"""
    f = ctypes.CDLL(str(find().shared_object(cache, {"a": text}, "a test"))).f
    f.argtypes = [ctypes.c_double] * 3
    assert f(float("inf"), -1.0, 1 + 2**-53) == 15
    fused = EXPORT + "double g(double a, double b, double c) { return a * b + c; }"
    g = ctypes.CDLL(str(find().shared_object(cache, {"a": fused}, "a test"))).g
    g.argtypes, g.restype = [ctypes.c_double] * 3, ctypes.c_double
    x = 1 + 2**-30
    assert g(x, x, -(x * x)) == 0.0  # a fused multiply-add gives 2^-60


@pytest.mark.parametrize("features, lanes", [
    ({"avx512f", "avx2", "fma"}, 16), ({"avx2", "fma"}, 8), ({"avx2"}, 4), ({"neon", "fma"}, 4),
    (set(), 4)])
def test_lanes(features, lanes):
    assert Toolchain(("cc",), "gcc 1", (), frozenset(features), "").lanes == lanes


def test_units_are_compiled_apart_and_linked(cache):
    units = {"a": "int two(void); " + EXPORT + "int answer(void) { return two() * 21; }",
             "b": "int two(void) { return 2; }"}
    assert ctypes.CDLL(str(find().shared_object(cache, units, "a test"))).answer() == 42


def test_the_second_time_comes_from_the_cache(cache, monkeypatch):
    units = {"a": EXPORT + "int one(void) { return 1; }"}
    path = find().shared_object(cache, units, "a test")
    monkeypatch.setattr(toolchain, "_run", None)
    assert find().shared_object(cache, units, "a test") == path


@pytest.mark.parametrize("units", [1, 2])
def test_a_source_that_does_not_compile(cache, units):
    bad = "int a;\nint b;\nint f(void) { return missing; }\nint c;\n"
    texts = {"bad": bad, "good": "int x;"} if units == 2 else {"bad": bad}
    with pytest.raises(BackendError) as error:
        find().shared_object(cache, texts, "kernels k0, k1")
    message = str(error.value)
    assert "failed on kernels k0, k1 with status 1:" in message
    assert ">     3 | int f(void) { return missing; }" in message and "      2 | int b;" in message
    kept = message.split("The source is kept at ")[1].split(". TEGG_CC")[0]
    assert Path(kept).read_text() == bad and f"{kept}:3" in message
    assert not list(cache.root.rglob("*.so"))


def test_symbols_that_do_not_link(cache):
    with pytest.raises(BackendError, match="failed on a test with status"):
        find().shared_object(cache, {"a": "int x;", "b": "int x = 1;", "c": "int x = 2;"}, "a test")


def test_a_compiler_that_dies(cache, tmp_path, monkeypatch, fresh):
    real = shutil.which(find().command[0]) or find().command[0]
    mock = script(tmp_path / "mycc", f'case "$*" in *-dM*) exec {real} "$@";; esac; kill -9 $$\n')
    monkeypatch.setenv("TEGG_CC", str(mock))
    with pytest.raises(BackendError, match=f"{mock}.* failed on a test with signal 9"):
        find().shared_object(cache, {"a": "int x;"}, "a test")


def test_compilers_speak_english(cache, tmp_path, monkeypatch, fresh):
    """The line of an error is found by the word; and what is compiled may hold any characters."""
    real = shutil.which(find().command[0]) or find().command[0]
    mock = script(tmp_path / "mycc", f'[ "$LC_ALL" = C ] || exit 1; exec {real} "$@"\n')
    monkeypatch.setenv("TEGG_CC", str(mock))
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    toolchain._find.cache_clear()
    with pytest.raises(BackendError, match=r">     2 \| int f = missing; // \u00e4"):
        find().shared_object(cache, {"a": "int x;\nint f = missing; // \u00e4"}, "a test")


def test_a_compiler_chosen_with_arguments(monkeypatch, fresh):
    monkeypatch.setenv("TEGG_CC", f"env NOTHING=1 {find().command[0]}")
    assert find().command[:2] == ("env", "NOTHING=1")


@pytest.mark.parametrize("chosen, words", [
    ("/nowhere/cc", "/nowhere/cc does not run: No such file"),
    ("false", "status 1"), ("true", "status 0"), ("'cc", "No closing quotation")])
def test_a_choice_that_is_no_compiler(monkeypatch, fresh, chosen, words):
    monkeypatch.setenv("TEGG_CC", chosen)
    with pytest.raises(BackendError) as error:
        find()
    assert str(error.value).startswith(f"TEGG_CC={chosen!r} is no working C compiler: {words}")
    assert str(error.value).endswith("set it to the path of gcc or clang, or unset it")


def test_no_compiler(monkeypatch, fresh, tmp_path):
    monkeypatch.delenv("TEGG_CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r"no C compiler works here \(tried cc, gcc and clang, "
                       r"which are not on PATH.*apt install gcc.*pip install 'tegg\[zig\]'"):
        find()


def test_a_stub_of_a_compiler_is_passed_over(monkeypatch, fresh, tmp_path):
    real = shutil.which(find().command[0])
    toolchain._find.cache_clear()
    script(tmp_path / "cc", "echo 'xcrun: error: no tools' >&2; exit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r"\(tried cc: xcrun: error: no tools\)"):
        find()
    (tmp_path / "gcc").symlink_to(real)
    assert find().command == ("gcc",)


def test_zig_is_the_last_resort(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: object())
    assert [c[1:] for c in toolchain._candidates()] == [("-m", "ziglang", "cc")]


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setenv("TEGG_THREADS", "3")
    assert threads.threads() == 3
    monkeypatch.setenv("TEGG_THREADS", "100000")
    assert threads.threads() == 1023
    monkeypatch.setenv("TEGG_THREADS", "0")
    assert 1 <= threads.threads() <= available()
