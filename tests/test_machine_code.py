"""What is asked of NVIDIA's compiler about kernels that tests emit."""

from __future__ import annotations

import json

import pytest
from simt import machine_code
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.nvrtc import CompileFailed
from tegg.backends.cuda.program import prelude


def kernel(name: str, body: str = "b0[thread_id()] = 1;") -> str:
    return f"KERNEL(256) {name}(float *const b0) {{\n{body}\n}}\n"


# more values at a time than a thread has registers
MANY = "  float x[300];\n" + "\n".join(f"  x[{i}] = b0[{i} + thread_id()];" for i in range(300)) + (
    "\n  __syncthreads();\n" + "\n".join(f"  b0[{i} * thread_id()] = x[{299 - i}];" for i in range(300)))

installed = pytest.mark.skipif(nvrtc.find() is None, reason="NVRTC is not installed")


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(machine_code, "_seen", set())


def test_programs_are_taken_apart():
    two = [kernel("a"), kernel("b")]
    assert machine_code.kernels(prelude() + "".join(two)) == two
    assert machine_code.kernels(f"{prelude()}int f();\n{two[0]}") == [f"int f();\n{two[0]}"]
    assert machine_code.unnamed(two[0]) == machine_code.unnamed(two[1])


def test_architectures_of_instructions():
    assert machine_code.admitted(kernel("k")) == (75, 80, 90)
    assert machine_code.admitted(kernel("k", "mma_g(d, a, b);")) == (80, 90)


@installed
def test_a_kernel_is_compiled_once(fresh, monkeypatch, tmp_path):
    report = tmp_path / "report"
    monkeypatch.setenv(machine_code.REPORT, str(report))
    machine_code.check([kernel("a")], every=True)
    machine_code.check([kernel("b")], every=True)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(r["sm"], r["kernel"], r["spilled"]) for r in rows] == [(a, "a", 0) for a in (75, 80, 90)]
    assert all(r["registers"] > 0 and "test_a_kernel_is_compiled_once" in r["test"] for r in rows)


@installed
def test_the_texts_of_kernels_draw_their_architectures(fresh, monkeypatch):
    made = []
    monkeypatch.setattr(machine_code, "compiled", lambda _, texts, a: made.append((a, len(texts))))
    texts = [kernel("k", f"b0[0] = {i};") for i in range(20)]
    machine_code.check(texts, every=False)
    assert sorted(a for a, _ in made) == [75, 80, 90] and 5 < sum(n for _, n in made) < 15
    made.clear()
    machine_code.check([kernel("k", f"b0[1] = {i};") for i in range(machine_code.MANY)], every=False)
    assert sum(n for _, n in made) == machine_code.MANY, "few are all compiled"
    assert machine_code.drawn(kernel("k", "wgmma_fence();"), b"x") == 90


@installed
def test_what_spills_or_is_refused_is_found(fresh):
    with pytest.raises(AssertionError, match="sm_80: .*'many: .* bytes spilled"):
        machine_code.check([kernel("many", MANY)], every=True)
    with pytest.raises(CompileFailed, match="nothing"):
        machine_code.check([kernel("k", "  b0[0] = nothing;")])


def test_what_is_drawn_may_spill(fresh):
    with machine_code.spills_allowed():
        machine_code.check([kernel("many", MANY)])
        with pytest.raises(CompileFailed, match="nothing"):
            machine_code.check([kernel("k", "  b0[0] = nothing;")])


def test_without_the_compiler_nothing_is_asked(fresh, monkeypatch):
    monkeypatch.setattr(machine_code, "_real", lambda: None)
    machine_code.check(["no kernel at all"])
