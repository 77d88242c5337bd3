"""Plans place what is stored by class and form: 16 bits in memory, float32 in kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from profiles import examples
from tegg.testing.programs import programs

import tegg
from tegg.errors import ExtractionError, WeightsError
from tegg.ir.classes import Cover, KernelSpec
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.nn import Parameter
from tegg.planning.make import make_plan
from tegg.runtime.driver import Options, compile_graph

RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 96), np.float32)


class Mlp(tegg.nn.Module):
    def __init__(self):
        self.up = Parameter(RNG.standard_normal((96, 192), np.float32) * 0.1)
        self.down = Parameter(RNG.standard_normal((192, 96), np.float32) * 0.1)

    def forward(self, x):
        return ((x @ self.up).gelu() @ self.down + x).softmax(-1)


def exact(model, x):
    up, down = (p.data.astype(np.float64) for p in (model.up, model.down))
    from tegg.ir.meaning import gelu
    y = gelu(x.astype(np.float64) @ up) @ down + x
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def stored(program, *kinds):
    return {b.dtype.name for b in program.plan.buffers if b.kind in kinds}


def test_values_between_kernels_take_half_the_memory():
    model = Mlp()
    plain = tegg.compile(model, tegg.Generic(), cache=False)
    half = tegg.compile(model, tegg.Generic(), tegg.Bf16(), cache=False)
    y, want = half(X), exact(model, X)
    assert y.dtype == np.float32 and 1e-6 < np.abs(y - want).max() < 2e-2
    assert np.abs(plain(X) - want).max() < 1e-5
    assert half.stats["arena_bytes"] * 2 == plain.stats["arena_bytes"]
    assert stored(half.program(X), "arena") == {"bf16"} and "arena" in half.plan.show()
    assert ":bf16" in half.plan.show() and ":bf16" not in plain.plan.show()


def test_a_weight_that_is_read_once_a_run_rests_in_the_form():
    """One row against a matrix: its bytes are the cost, so they are halved ahead."""
    wide = Parameter(RNG.standard_normal((1024, 4096), np.float32) * 0.05)
    run = tegg.compile(lambda x: x @ wide, tegg.Generic(), tegg.Bf16(), cache=False)
    x = RNG.standard_normal((1, 1024), np.float32)
    got, want = run(x), x.astype(np.float64) @ wide.data
    scale = np.abs(x).astype(np.float64) @ np.abs(wide.data)
    assert np.all(np.abs(got - want) <= 2 ** -8 * scale)
    program = run.program(x)
    assert stored(program, "ahead") == {"bf16"} and "CpuHalves" in program.plan.show()
    wide.data = wide.data * 2  # halved again
    np.testing.assert_allclose(run(x), 2 * got, 1e-6)


def test_saved_programs_keep_their_forms(tmp_path):
    model = Mlp()
    program = tegg.compile(model, tegg.Generic(), tegg.Bf16(), cache=False).program(X)
    tegg.save(program, tmp_path / "half.tegg")
    again = tegg.load(tmp_path / "half.tegg")
    assert again.plan.show() == program.plan.show()
    np.testing.assert_array_equal(again(X)["out"], program(X)["out"])


def test_a_weight_beyond_float16_is_refused_when_it_is_bound():
    wide = Parameter(np.full((1024, 4096), 0.5, np.float32))
    run = tegg.compile(lambda x: x @ wide, tegg.Generic(), tegg.Fp16(), cache=False)
    x = np.ones((1, 1024), np.float32)
    assert np.all(run(x) == 512) and stored(run.program(x), "ahead") == {"f16"}
    wide.data = np.full((1024, 4096), 7e4, np.float32)
    with pytest.raises(WeightsError, match=r"the weight at input 1, of shape \[1024, 4096\], holds "
                                           r"70000, which is beyond f16; compile without"):
        run(x)
    wide.data = np.full((1024, 4096), np.inf, np.float32)  # infinite already
    assert np.all(run(x) == np.inf)


def test_outputs_and_states_keep_their_dtype():
    """The input holds values of bfloat16 already, which products may round where the CPU has
    tiles or pairs: what differs by more is an output or a state that was rounded."""
    g = tegg.Graph()
    x = g.tensor((32, 32), name="x")
    mean = g.tensor((32, 32), name="mean")
    h = (x @ x).output("h")
    tegg.state(mean, mean + h * 0.5)
    (h @ x).sum(-1).output("total")
    run = g.compile([tegg.Generic(), tegg.Bf16()])
    a = X[:32, :32].astype(ml_dtypes.bfloat16).astype(np.float32)
    state = np.zeros((32, 32), np.float32)
    out = run(x=a, mean=state)
    np.testing.assert_allclose(out["h"], a @ a, 1e-4, 1e-4)
    np.testing.assert_allclose(state, 0.5 * (a @ a), 1e-4, 1e-4)
    assert out["total"].dtype == np.float32


def test_a_cast_of_the_user_stays():
    """1 + 2^-12 is 1 in float16, whatever may rest in which form."""
    f = tegg.compile(lambda x: x.cast("f16").cast("f32") * 2, tegg.Generic(), tegg.Fp16(),
                     tegg.Bf16(), cache=False)
    assert f(np.full(3, 1 + 2 ** -12, np.float32)).tolist() == [2, 2, 2]


@settings(max_examples=examples(12))
@given(programs(steps=8, symbolic=False))
def test_random_programs_in_halves_run_and_keep_their_types(program):
    """Every cover runs, and results keep shape and dtype. Values are not compared: random ops
    amplify a rounding without bound."""
    if program.graph.updates:
        return
    for i, s in enumerate(program.graph.inputs):
        if s.kind == "weight":
            s.source = program.inputs[i]
    run = compile_graph(program.graph, Options((tegg.Generic(), tegg.Bf16()), cache=False))
    inputs = [program.inputs[i] for i, s in enumerate(program.graph.inputs) if s.kind != "weight"]
    outputs = list(program.graph.outputs.values())
    want = evaluate(outputs, program.inputs, program.sizes)
    for n, a, b in zip(outputs, run(*inputs).values(), want):
        assert a.dtype == b.dtype and a.shape == b.shape, n


def test_a_form_that_is_no_dtype_has_no_buffer():
    g = Graph()
    x = g.input("x", (4,), "f32", "weight")
    g.outputs["y"] = y = g.op("Sin", x)
    from eclass_graphs import classes_of
    classes = classes_of(g)
    cover = Cover([KernelSpec((x.id,), (x.id,), {}, 0.0, ahead=True, out_forms=("q8",)),
                   KernelSpec((y.id,), (x.id,), {y.id: classes.nodes[y.id][0]}, 0.0)], 0.0, 0.0)
    with pytest.raises(ExtractionError, match="the storage form 'q8' is no dtype"):
        make_plan(classes, cover, (), lambda s: None, lambda *_: None)
