"""What stands above a unit: the definitions of the vector library that it uses, and no others."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pytest
from contractions import CASES, lowered
from tegg.backends.cpu import library, toolchain
from tegg.backends.cpu.emit import BYTES
from tegg.backends.cpu.trimming import above, definitions, kept, needed
from tegg.testing.draw import Draw

from tegg.cache import Cache
from tegg.errors import BackendError


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path, 1 << 30)


def names(text: str) -> list[tuple[str, ...]]:
    return [found for found, _ in definitions(text)]


@pytest.mark.parametrize("text, name", [
    ("int f(int a) { if (a) { return 1; } return 2; }", ("f",)),
    ("static inline __attribute__((always_inline, unused)) vf vf_less(vf a, vf b) { ; }",
     ("vf_less",)),
    ("struct pair f(void) { struct pair p = {1, 2}; return p; }", ("f",)),
    ("extern int g (int) __attribute__ ((__nothrow__ , __leaf__));", ("g",)),
    ("extern __attribute__((visibility(\"hidden\"))) const struct rt_table *at;", ("at",)),
    ("typedef unsigned long int size;", ("size",)),
    ("typedef int one __attribute__((vector_size(64))), two;", ("one", "two")),
    ("typedef struct { int a, b; } pair;", ("pair",)),
    ("__extension__ typedef struct tag { long long quot; } pair_t;", ("pair_t",)),
    ("typedef float four[4];", ("four",)),
    ("struct __attribute__((packed)) pair { int a; struct pair *next; };", ("pair",)),
    ("struct pair;", ("pair",)),
    ("enum { ONE, TWO = 2 };", ("ONE", "TWO")),
    ("static const char text[] = \"{;(\";", ("text",)),
    ("static const int table[2] = {(1), 2};", ("table",)),
    ("static const int number = f(1);", ("number",)),
    ("static __thread char tiles[8][16] __attribute__((aligned(64)));", ("tiles",)),
])
def test_a_definition_is_used_by_its_name(text: str, name: tuple[str, ...]) -> None:
    """Beside others, whose ends and beginnings are found as well."""
    before, after = "int before(void) { return '}'; }", "int after;"
    assert definitions(f"{before}\n{text} ;\n{after}") == [
        (("before",), before), (name, text), (("after",), after)]


def test_a_type_of_functions_is_used_by_its_name() -> None:
    assert "task" in names("typedef void (*task)(void *arg, int tid);")[0]


def test_of_macros_those_remain_that_hold_in_the_end() -> None:
    text = "#define A 1\n#define B(x) (x)\nint a;\n#undef A\n#undef NEVER\n#define C 3\n#define C 4\n"
    assert [part for _, part in definitions(text)] == ["int a;", "#define B(x) (x)", "#define C 4"]


def test_what_is_said_to_the_compiler_stays_where_it_is() -> None:
    text = """#pragma once
int f(void) {
#pragma GCC unroll 4
#define INSIDE 1
  for (;;) ;
}
#pragma GCC visibility push(default)
int g;
"""
    head = kept(definitions(text))
    assert needed(BytesIO(head), "f") == text.split("\n", 1)[1].rsplit("\n", 2)[0]
    assert needed(BytesIO(head), "g") == "#pragma GCC visibility push(default)\nint g;"


def test_macros_come_after_what_they_could_change() -> None:
    found = [(("f",), "int f(int x) { return x; }"), (("g",), "int g(void) { return f(1); }"),
             (("x",), "#define x y"), (("y",), "#define y 3"), (("z",), "#define z 4")]
    assert needed(BytesIO(kept(found)), "g() + x") == "\n".join(
        [found[0][1], found[1][1], "#define x y", "#define y 3"])


def test_a_name_may_have_several_definitions() -> None:
    text = "struct s;\nint f(struct s *);\ntypedef struct s s;\nint f(s *x) { return 1; }\nint g;"
    assert needed(BytesIO(kept(definitions(text))), "f(0)") == text.rsplit("\n", 1)[0]


@pytest.mark.parametrize("lanes", [4, 8, 16, BYTES])
def test_every_function_of_the_library_is_found(lanes: int) -> None:
    """By a second reader: the compiler itself says what it defines."""
    compiler = toolchain.find()
    head = library.prelude(lanes)
    found = {n for known, _ in definitions(compiler.preprocessed(head)) for n in known}
    plain = subprocess.run([*compiler.command, *compiler.flags, "-E", "-P", "-x", "c", "-"],
                           input=head, capture_output=True, text=True, check=True).stdout
    functions = set(re.findall(r"unused\)\)\s+\w+\s+\*?(\w+)\s*\(", plain))
    assert len(functions) > 100 and functions <= found


def test_code_is_what_it_is_below_all_of_the_library(cache) -> None:
    """The same instructions; and little stands above them."""
    compiler = toolchain.find()
    head = library.prelude(compiler.lanes)
    for name in ("bias_gelu", "gathered", "masked", "typed_bf16", "typed_i8", "convolution"):
        outputs, anchors = CASES[name](g := Draw())
        body = lowered(g, outputs, anchors, compiler.lanes).source
        part = above(cache, compiler, head, body)
        assert len(part) < len(head) / 2
        assert assembly(compiler, f"{part}\n{body}") == assembly(compiler, f"{head}\n{body}")


def assembly(compiler: toolchain.Toolchain, text: str) -> str:
    """The instructions, whatever numbers their labels and lines have."""
    with tempfile.NamedTemporaryFile(suffix=".s") as made:  # clang takes "-" for a file's name
        subprocess.run([*compiler.command, *compiler.flags, "-g0", "-S", "-o", made.name,
                        "-x", "c", "-"], input=text, capture_output=True, text=True, check=True)
        words = Path(made.name).read_text(encoding="utf-8")
    assert words
    return re.sub(r"\.L[A-Z]*\d+|^# \d+ .*|^\t\.file.*", "", words, flags=re.MULTILINE)


def test_the_library_is_preprocessed_once_per_machine(cache, monkeypatch) -> None:
    compiler = toolchain.find()
    head = library.prelude(compiler.lanes)
    first = above(cache, compiler, head, "vf_splat(1)")
    assert "vf_splat" in first and "vd_splat" not in first
    monkeypatch.setattr(toolchain, "_run", None)
    assert above(cache, compiler, head, "vf_splat(1)") == first


def test_a_head_that_does_not_pass_is_an_error(cache) -> None:
    with pytest.raises(BackendError, match=r"(?s)failed to preprocess the vector library: .*wrong.*TEGG_CC"):
        above(cache, toolchain.find(), "#error wrong\n", "f()")


def test_clang_is_understood_too(cache) -> None:
    pytest.importorskip("ziglang")
    compiler = toolchain._probe((sys.executable, "-m", "ziglang", "cc"))
    head = library.prelude(compiler.lanes)
    body = "vf f(vf a) { return vf_sel(a < vf_splat(0), vf_splat(0), a); }"
    part = above(cache, compiler, head, body)
    assert "vf_sel" in part and len(part) < len(head) / 4
    assert assembly(compiler, f"{part}\n{body}") == assembly(compiler, f"{head}\n{body}")
