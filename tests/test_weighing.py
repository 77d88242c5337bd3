"""What weights hold at most: which products of float16 follow from it, and what a larger weight does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tegg
from tegg import nn
from tegg.backends.cuda.target import Cuda
from tegg.errors import OutgrownError
from tegg.nn import Parameter
from tegg.runtime.driver import Options, plan_graph
from tegg.runtime.weighing import check_within, largest, weighed
from tegg.trace import ArraySpec, trace

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "gpu_bundle"))


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def bound_of(array: np.ndarray) -> float | None:
    """What is stated of a weight where a compiler asks."""
    traced = trace(lambda x: x @ Parameter(array), (ArraySpec((3, array.shape[0]), tegg.f32),))
    (spec,) = (s for s in weighed(traced.graph, (tegg.Fp16(),)).inputs if s.kind == "weight")
    assert all(s.most is None for s in weighed(traced.graph, (tegg.Bf16(),)).inputs)
    return spec.most


def test_bounds_leave_a_weight_room_to_grow():
    for largest_ in (1e-3, 0.7, 1.0, 3.0, 70000.0):
        w = drawn(8, 4)
        w[2, 1] = -largest_
        w[w != -largest_] *= largest_ / 2
        found = bound_of(w)
        assert 1.18 * largest_ < found < 1.42 * largest_
        assert found <= bound_of(w * np.float32(1.01)) < 1.2 * found
    assert bound_of(np.zeros((8, 4), np.float32)) == 1.0


def test_what_is_not_finite_does_not_count():
    w = np.asarray([[np.nan, 2.0], [-np.inf, -3.0]], np.float32)
    assert largest(w) == 3.0
    assert largest(w[:0]) == 0.0 and largest(w[:1]) == 2.0
    assert largest(np.full((2, 2), np.nan, np.float32)) == 0.0


def test_a_larger_weight_is_refused():
    check_within({0: 2.0, 3: 1.0}, {0: np.asarray([-2.0])})
    with pytest.raises(OutgrownError, match="the weight at input 0, of shape .1., holds 2.5, and the "
                                            "program was compiled for 2 at most"):
        check_within({0: 2.0}, {0: np.asarray([-2.5])})


def test_a_program_is_compiled_again_for_larger_weights():
    held = Parameter(drawn(32, 16))
    f = tegg.compile(lambda x: x @ held, tegg.Generic(), tegg.Fp16(), cache=False)
    x = drawn(24, 32, seed=1)
    np.testing.assert_allclose(f(x), x @ held.data, atol=2e-2)
    program = f.program(x)
    held.data = held.data * np.float32(1.05)  # within the bound
    np.testing.assert_allclose(f(x), x @ held.data, atol=2e-2)
    assert f.program(x) is program
    held.data = held.data * np.float32(8)
    with pytest.raises(OutgrownError):
        program(x)
    np.testing.assert_allclose(f(x), x @ held.data, atol=2e-1)
    assert f.program(x) is not program


def labels(fn, shape, architecture: int) -> list[tuple[str, str]]:
    traced = trace(fn, (ArraySpec(shape, tegg.f32),))
    target = tegg.Compiler(name="t", target=Cuda(architecture))
    plan = plan_graph(traced.graph, Options((tegg.Generic(), tegg.Fp16(), target), cache=False))
    return [(c.label, plan.kernels[c.kernel].source) for c in plan.run]


@pytest.mark.parametrize("scale, core", [(1.0, True), (9000.0, False)])
def test_a_norm_is_in_range_where_its_weights_are(scale, core):
    """What is fed to the norm may be anything. Of weights of 9000 the bound is beyond float16."""
    norm, w = nn.LayerNorm(128), Parameter(drawn(128, 256))
    norm.weight.data = drawn(128, seed=2) * np.float32(scale)
    norm.bias.data = drawn(128, seed=3)
    found = labels(lambda x: norm(x) @ w, (512, 128), 80)
    assert any("mma_h(" in source for _, source in found) == core


@pytest.mark.parametrize("architecture", (75, 80, 90))
def test_products_of_a_model_are_on_tensor_cores(architecture):
    """Of a BERT all of them, attention too."""
    from cases import minilm
    from make import Written
    made = Written(minilm(1, 100, half=True), architecture)
    products = [(c.label, made.plan.kernels[c.kernel].source) for c in made.plan.run
                if "Cuda" in c.label and "CudaRows" not in c.label]
    assert len(products) >= 5 and all("mma_h(" in source or "wgmma_h_" in source
                                      for _, source in products), products
    assert any("Attention" in label for label, _ in products)
