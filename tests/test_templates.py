"""The forms of a contraction on the CPU: which are offered, which one wins, and what it computes."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from profiles import examples
from contractions import FORMS, lowered, product
from tegg.testing.draw import Draw
from hypothesis import given, settings, strategies as st
from kernels import build, call

from tegg.backends.cpu.attention_forms import AttentionForms, attention_row
from tegg.backends.cpu.direct_forms import DirectForms
from tegg.backends.cpu.direct_templates import direct_templates
from tegg.backends.cpu.loop_forms import LoopForms, loops_row
from tegg.backends.cpu.near import near_rows
from tegg.backends.cpu.narrow_forms import NarrowForms, narrow_templates
from tegg.backends.cpu.symmetric_forms import SymmetricForms, symmetric_row
from tegg.backends.cpu.target import Cpu
from tegg.backends.cpu.templates import Forms, templates, tile_of
from tegg.dim import dim, evaluate as evaluate_size
from tegg.dtype import bf16, f32, f64
from tegg.errors import LoweringError
from tegg.extract import extract
from tegg.extract.cost import load_costs
from tegg.ir.classes import KernelSpec
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.ir.template import OWN, Extents
from tegg.kernel.contraction_shape import GemmShape, blocked, estimate
from tegg.kernel.registers import Registers
from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.egraph import saturate
from tegg.rewrite.providers.multiplying import Attending
from tegg.testing.agree import check_egraph
from tegg.runtime.driver import Options, compile_graph, resolve

WIDE = Registers(16)
ROWS = {op.name: op for op in templates(WIDE)}


class Wide(Cpu):
    """The CPU, with what a machine of 16 lanes and some threads would choose; maybe in one form."""

    def __init__(self, only: str = "", threads: int = 2) -> None:
        super().__init__()
        self.only, self.threads = only, threads
        self.ops = (*templates(WIDE), *narrow_templates(16), attention_row(WIDE),
                    *direct_templates(16), loops_row(), symmetric_row(WIDE), *near_rows())
        self.providers = (Forms(WIDE), NarrowForms(WIDE, frozenset()),
                          AttentionForms(frozenset()), Attending((bf16,)),
                          DirectForms(WIDE, frozenset()), LoopForms(), SymmetricForms(WIDE))

    def identity(self) -> str:
        return f"{super().identity()} {self.only} {self.threads}"

    def costs(self):
        others = {name: 1e6 for name in ROWS if name != self.only} if self.only else {}
        return dataclasses.replace(load_costs("cpu/generic", self.threads), templates=others)


def chosen(graph: Graph, target: Cpu) -> list[KernelSpec]:
    stack, _ = resolve(Options((Generic(), Compiler(target=target, name="wide"))))
    classes = saturate(graph, stack, features=("cpu", *target.features)).classes
    return extract(classes, target.costs(), lowerable=target.unsupported).kernels


def matmul(m, n, k, transposed=False, weight=False) -> Graph:
    g = Graph()
    x = g.input("x", (m, k), "f32")
    w = g.input("w", (n, k) if transposed else (k, n), "f32", "weight" if weight else "input")
    w = g.permute(w, (1, 0)) if transposed else w
    g.outputs["y"] = g.op("SumReduce", g.mul(g.expand(g.reshape(x, (m, k, 1)), (m, k, n)),
                                             g.expand(g.reshape(w, (1, k, n)), (m, k, n))), 1)
    return g


def form(graph: Graph, threads: int = 2) -> tuple:
    (spec,) = [s for s in chosen(graph, Wide(threads=threads)) if s.anchor is not None]
    node = spec.body[spec.anchor]
    return (node.op.name, *node.attrs[OWN:])


# ---- which form wins
@pytest.mark.parametrize("graph, wins", [
    (matmul(1024, 1024, 1024, weight=True), ("CpuPacked", 6, 4, 1)),
    (matmul(248, 1152, 384, weight=True), ("CpuPacked", 8, 3, 1)),
    (matmul(31, 31, 32), ("CpuPacked", 8, 2, 1)),
    (matmul(1, 4096, 4096), ("CpuRows", 4, 2)),
    (matmul(1, 1024, 1024, weight=True), ("CpuPacked", 1, 4, 1)),    # a panel is one stream
    (matmul(1, 4096, 4096, weight=True), ("CpuRows", 4, 2)),            # of which no copy is worth it
    (matmul(1, 4096, 4096, True, weight=True), ("CpuDots", 1, 1, 2)),
    (matmul(8, 4096, 1024), ("CpuRows", 4, 2)),                         # packing is not worth it
    (matmul(8, 4096, 1024, True), ("CpuDots", 4, 1, 2)),
    (matmul(1, 4096, 4096, True), ("CpuDots", 1, 1, 2)),
    (matmul(8, 4096, 1024, weight=True), ("CpuPacked", 8, 2, 1)),    # it is done ahead
    (matmul(20, 30, 100_000), ("CpuPacked", 10, 2, 32)),             # few outputs, long depth
    (matmul(4, 8, 200_000, True), ("CpuDots", 4, 32, 2)),
    (matmul(dim("m", 0, 4096, hint=512), 384, 384, weight=True), ("CpuPacked", 8, 3, 1)),
    (matmul(dim("m", 0, 4096, hint=1), 4096, 4096), ("CpuRows", 4, 2)),
    (matmul(16, 16, dim("k", 1, 1 << 20, hint=65536)), ("CpuPacked", 8, 1, 32)),
], ids=lambda v: "" if isinstance(v, Graph) else "-".join(map(str, v)))
def test_the_cheapest_form_is_chosen(graph, wins):
    assert form(graph) == wins


@pytest.mark.parametrize("transposed, here", [(False, "CpuRows"), (True, "CpuDots")])
def test_a_copy_of_a_large_weight_is_made_only_where_it_is_read_much_sooner(transposed, here):
    class Shipped(Wide):
        def costs(self):
            return load_costs(f"cpu/{self.only}", 2)

    for profile, wins, asked in (("generic", here, 2), ("zen3", here, 0), ("zen4", "CpuPacked", 1),
                                 ("zen5", "CpuPacked", 1)):
        kernels = chosen(matmul(1, 4096, 4096, transposed, weight=True), Shipped(profile))
        forms = {(n.op.name, n.attrs[-1]) for k in kernels for n in k.body.values() if n.op.template}
        assert forms == {(wins, asked)}  # the last of packed is its parts


def test_the_number_of_parts_does_not_depend_on_threads():
    found = {form(matmul(20, 30, 100_000), threads) for threads in (1, 2, 8, 64)}
    assert len({f[-1] for f in found}) == 1


def test_siblings_of_different_widths_share_one_form():
    g = Graph()
    x = g.input("x", (64, 256), "f32")
    for name, n in (("a", 512), ("b", 48)):
        w = g.input(name, (256, n), "f32", "weight")
        g.outputs[f"y{name}"] = g.idiom("Contract", x, w, "a,k;k,b;a,b", (64, n))
    (spec,) = chosen(g, Wide())
    forms = {(n.op.name, n.attrs[OWN:]) for n in spec.body.values() if n.op.kind == "contract"}
    assert len(spec.outs) == 2 and len(forms) == 1


def test_all_forms_of_a_class_agree():
    for transposed in (False, True):
        g = matmul(dim("m", 1, 8, hint=2), 5, dim("k", 1, 9000, hint=4100), transposed)
        sizes = {"m": 2, "k": 4100}
        rng = np.random.default_rng(2)
        inputs = {i: rng.standard_normal(tuple(evaluate_size(d, sizes) for d in s.shape),
                                         np.float32) for i, s in enumerate(g.inputs)}
        stack, _ = resolve(Options((Generic(), Compiler(target=Wide(), name="wide"))))
        done = check_egraph(g, stack, inputs, sizes)
        forms = {n.op.name for ns in done.classes.nodes.values() for n in ns}
        assert {"CpuPacked", "CpuDots" if transposed else "CpuRows"} <= forms


# ---- every form computes the product
@cache
def forced(name: str) -> Compiler:
    return Compiler(target=Wide(name), name=f"only {name}")


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("m, n, k, transposed", [(3, 50, 70, False), (2, 33, 5000, True)])
def test_a_form_can_be_forced_by_cost(name, m, n, k, transposed):
    g = matmul(m, n, k, transposed)
    run = compile_graph(g, Options((Generic(), forced(name))))
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s.shape, np.float32) for s in g.inputs)
    want = x.astype(float) @ (w.T if transposed else w)
    np.testing.assert_allclose(run(x, w)["y"].reshape(want.shape), want, 0, 1e-3)
    offered = name == "CpuPacked" or (name == "CpuDots") == transposed
    assert any(name in c.label for c in run.plan.run) == offered


def test_parts_give_the_same_bits_for_any_number_of_threads():
    g = Draw()
    c = product(g, g.x(5, 3001), g.x(3001, 37), "a,k;k,n;a,n", 5, 37)
    rng = np.random.default_rng(1)
    arrays = {i: rng.standard_normal(s.shape, np.float32) for i, s in enumerate(g.inputs)}
    for tile in (FORMS["packed parts"], FORMS["dots parts"]):
        code = lowered(g, [c], [c], tile=tile)
        results = [call(build(code, 16), code, g, [c], arrays, {}, n)[0]
                   for n in (1, 2, 3, 7)]
        np.testing.assert_allclose(results[0], evaluate([c], arrays)[0], 0, 1e-3)
        assert all(np.array_equal(results[0], r) for r in results[1:])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m, n, k", [(1, 3, 0), (4, 40, 0), (2, 3000, 0), (0, 3, 4), (3, 0, 4)])
def test_what_is_empty_has_a_price(m, n, k, transposed):
    assert chosen(matmul(m, n, k, transposed), Wide())


# ---- what a form executes
@settings(max_examples=examples(30))
@given(st.integers(1, 3), st.integers(1, 90), st.integers(1, 90), st.integers(1, 600),
       st.sampled_from((f32, f64)))
def test_flops_are_those_that_the_kernel_executes(batch, m, n, k, dtype):
    """Also of tiles at the edges. Rows and dots may count up to a vector that they mask."""
    operands = (_Operand((batch, m, k), dtype), _Operand((batch, k, n), dtype),
                "b,a,k;b,k,n;b,a,n")
    for own in Forms(WIDE).completions("cpu-tile", *operands):
        attrs = ("", (), *own, 1)
        made = ROWS["CpuPacked"].template(attrs, Extents(batch, m, n, k, dtype))
        shape = GemmShape(batch, m, (n,), k, dtype, b_batched=True)
        done = estimate(shape, blocked(shape, tile_of(ROWS["CpuPacked"], attrs), WIDE))
        assert made.flops == done.flops
        assert made.packed * dtype.itemsize == done.packed_bytes
        assert 0 < made.speed <= 1


@dataclasses.dataclass(frozen=True)
class _Operand:
    shape: tuple
    dtype: object


def test_parts_set_their_sums_aside():
    e = Extents(2, 12, 40, 9000, f32)
    tiles = [("", (), 12, 2, p) for p in (1, 4)]
    whole, parts = (ROWS["CpuPacked"].template(t, e) for t in tiles)
    assert (whole.aside, whole.stages) == (0, 0) and (parts.pieces, parts.stages) == (8, 1)
    assert parts.aside == 4 * 2 * 12 * 64 and parts.kept == 0 and parts.packed == whole.packed


def test_panels_that_are_not_full_are_slower_and_less_so_the_deeper_they_are():
    def speed(n, k):
        return ROWS["CpuPacked"].template(("", (), 6, 2, 1), Extents(1, 60, n, k, f32)).speed

    columns = 2 * WIDE.width * 100
    full, loose = (speed(columns, 32), speed(columns - WIDE.width, 32))
    assert loose < 0.95 * full and 0.99 * full < speed(columns - WIDE.width, 1024) < full
    assert speed(columns, 1024) == full


def test_nothing_is_offered_that_registers_do_not_hold():
    shapes = _Operand((100, 100), f32), _Operand((100, 1000), f32), "a,k;k,b;a,b"
    for registers in (WIDE, Registers(8), Registers(4), Registers(4, neon=True)):
        for rows, vectors in Forms(registers).completions("cpu-tile", *shapes):
            assert rows * vectors + vectors + 1 <= registers.count


def test_only_templates_are_lowered():
    g = Graph()
    c = g.op("Contract", g.input("x", (3, 4), "f32"), g.input("y", (4, 5), "f32"),
             "a,k;k,b;a,b", (3, 5))
    with pytest.raises(LoweringError, match="Contract has no form on this device; the rules of"):
        tile_of(c.op, c.attrs)
    assert "is lowered as one of its templates" in Cpu().unsupported(c.op, f32)
    assert all(Cpu().unsupported(op, f32) is None for op in Cpu().ops)


@pytest.mark.parametrize("y, spec, offered", (
    ((40, 24, 3), "a,k,l;b,k,l;a,b", True), ((24, 40, 3), "a,k,l;k,b,l;a,b", False),
    ((24, 40, 8), "a,k,l;k,b,l;a,b", True)))
def test_dots_are_offered_where_the_depth_lies_in_runs_that_are_worth_vectors(y, spec, offered):
    x, y = _Operand((2, 24, y[-1]), f32), _Operand(y, f32)
    assert bool(Forms(WIDE).completions("cpu-dots", x, y, spec)) == offered
    assert bool(Forms(WIDE).completions("cpu-rows", x, y, spec)) != offered
