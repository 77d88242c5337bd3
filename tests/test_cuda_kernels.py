"""Kernels emitted for CUDA, run on the simulator in three orders of threads, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from draw import Draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import close
from simt import cases
from test_kernel_cases import CASES
from test_kernel_ops import ELEMENTWISE, N, differ, given_to, values
from test_kernel_random import DIMS, RUNS, Program
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.emit import CudaC

from tegg.dim import evaluate as size_of, product
from tegg.dtype import DTYPES
from tegg.errors import DTypeError, LoweringError
from tegg.ir.oracle import evaluate
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS

ARCHITECTURES = (75, 80, 90)


def compiled(codes) -> None:
    """NVIDIA's own compiler takes the text for every architecture, where it is installed."""
    compiler = nvrtc.find()
    for architecture in ARCHITECTURES if compiler else ():
        compiler.compile("\n".join([cases.prelude(), *(c.source for c in codes)]), architecture)


def agree(unit, c, order: int, slack: float = 1.0) -> None:
    """A case gives what the oracle says."""
    for i, (got, want, node) in enumerate(zip(cases.run(unit, c, order),
                                              evaluate(c.outputs, c.inputs, c.sizes), c.outputs)):
        why = close(got, want, node.dtype, slack)
        assert why is None, f"{c.code.name}, output {i} at {dict(c.sizes)}, order {order}: {why}"


@pytest.mark.parametrize("part", range(4))
def test_cases(part):
    """The adversarial kernels that the CPU's printer is tested on."""
    found = []
    for name in sorted(CASES)[part::4]:
        g = Draw()
        found.append(cases.case(f"k_{name}", g, CASES[name](g)))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 2.0)
    compiled([c.code for c in found])


def elementwise(dtype):
    """Every op on an array, and on single values, in one kernel; which op each output is of."""
    g, outputs, inputs, rows = Draw(), [], {}, []
    for op in ELEMENTWISE:
        kinds = ["any" if d in ("index", "small") else d for d in op.domains]
        args = [(DTYPES["bool"] if op.name == "Select" and i == 0 else dtype, kind)
                for i, kind in enumerate(kinds)]
        try:
            op.dtype([d for d, _ in args], ())
        except DTypeError:
            continue
        if dtype.kind == "bool" and op.name in ("Relu", "Abs", "Neg", "Sub"):
            continue
        if op.name == "Not" and dtype.kind != "bool":
            continue
        nodes = [g.x(N, dtype=d.name) for d, _ in args]
        for node, (d, kind) in zip(nodes, args):
            inputs[node.attrs[0]] = values(d, kind, node.attrs[0])
        outputs.append(g.op(op.name, *nodes))
        rows.append(op)
    return g, outputs, inputs, rows


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_elementwise(dtype):
    g, outputs, inputs, rows = elementwise(dtype)
    c = cases.case("k", g, outputs, inputs=inputs)
    got = cases.run(cases.module([c.code]), c)
    for op, a, b, node in zip(rows, got, evaluate(outputs, inputs), outputs):
        slack = 8 * op.tolerance * (4 if op.name in ("Sin", "Cos") else 1)
        with np.errstate(invalid="ignore"):
            size = np.abs(given_to(node, inputs)) if op.name.startswith("Gelu") else 0.0
        why = differ(a, b, node.dtype, slack, size)
        assert why is None, f"{op.name} {dtype.name}: {why}"
    compiled([c.code])


def test_casts_and_reductions():
    found, rng = [], np.random.default_rng(3)
    for dtype in DTYPES.values():
        g = Draw()
        x, wide = g.x(N, dtype=dtype.name), g.x(3, 400, dtype=dtype.name)
        outputs = [g.op("Cast", x, to) for to in DTYPES.values() if to is not dtype]
        outputs += [g.total(wide, 1), g.top(wide, 1), g.total(wide, 0), g.top(wide, 0, 1)]
        given_ = {0: np.abs(rng.integers(0, 100, N)).astype(dtype.numpy),
                  1: rng.integers(0, 3, (3, 400)).astype(dtype.numpy)}
        found.append(cases.case(f"k_{dtype.name}", g, outputs, inputs=given_))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3)
    compiled([c.code for c in found])


def programs(data, dims, dtypes, count):
    """Random fragments as cases, each at the sizes that it is small enough for."""
    found = []
    for number in range(count):
        p = Program(data, dims, data.draw(st.sampled_from(dtypes)))
        for _ in range(data.draw(st.integers(2, 8))):
            p.step()
        outputs = [p.pool[-1]]
        try:
            code = lower(p.g, outputs, f"k{number}", CudaC(), LIMITS)
        except LoweringError:
            continue
        if code.work.evaluations < 4e5:
            found.append((p.g, outputs, code))
    return found


def simulate(found, slack: float = 8) -> None:
    """All fragments as one translation unit, at their sizes."""
    unit = cases.module([code for _, _, code in found])
    for number, (g, outputs, code) in enumerate(found):
        for i, sizes in enumerate(RUNS if code.symbols else RUNS[:1]):
            if any(size_of(product(n.shape), sizes) > 20_000 for n in g.reachable(outputs)):
                continue
            rng = np.random.default_rng(i)
            inputs = {}
            for slot, spec in enumerate(g.inputs):
                shape = tuple(size_of(d, sizes) for d in spec.shape)
                inputs[slot] = (rng.standard_normal(shape) if spec.dtype.is_float else
                                rng.integers(-3, 40, shape)).astype(spec.dtype.numpy)
            c = cases.Case(g, outputs, sizes, inputs, code)
            agree(unit, c, (number + i) % 3, slack)


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=3, **COMMON)
@given(st.data())
def test_random_constant_shapes(data):
    dims = tuple(d for d in DIMS if isinstance(d, int)) + (40, 65)
    simulate(programs(data, dims, ("f32", "f32", "i32", "u8", "f64"), 10))


@settings(max_examples=3, **COMMON)
@given(st.data())
def test_random_symbolic_shapes(data):
    simulate(programs(data, DIMS, ("f32",), 8))
