"""Running a cover kernel by kernel through the oracle, each kernel seeing only what is stored."""

from __future__ import annotations

import numpy as np

from tegg.ir import oracle
from tegg.ir.classes import Cover, EClasses
from tegg.extract import fragment


def memory_before(classes: EClasses, inputs) -> dict[tuple[int, str], np.ndarray]:
    return {(c, ""): inputs[n.attrs[0]] for c, ns in classes.nodes.items() for n in ns
            if n.op.name == "Input" and n.attrs[0] in inputs}


def run_cover(cover: Cover, classes: EClasses, inputs, sizes) -> dict[tuple[int, str], np.ndarray]:
    """What lies in memory after a run, by (class, form). Kernels run in the order given; those
    that run ahead get to see weights only."""
    memory = memory_before(classes, inputs)
    weights = {i: a for i, a in inputs.items() if classes.graph.inputs[i].kind == "weight"}
    early = memory_before(classes, weights)
    for spec in cover.kernels:
        seen = early if spec.ahead else memory
        f = fragment(spec, classes)
        reads = {i: seen[c, spec.form_of_leaf(i)] for i, c in enumerate(spec.leaves)}
        for i, (c, v) in enumerate(zip(spec.outs, oracle.evaluate(f.outputs, reads,
                                                                  {} if spec.ahead else sizes))):
            key = (c, spec.form_of_out(i))
            assert key not in memory, f"class {key} is written twice, or is an input"
            memory[key] = v
            if spec.ahead:
                early[key] = v
    return memory


def check_cover(cover: Cover, classes: EClasses, inputs, sizes) -> None:
    """Outputs and updates are written, and have the oracle's values."""
    memory = run_cover(cover, classes, inputs, sizes)
    g = classes.graph
    wanted = [*g.outputs.values(), *g.updates.values()]
    for n, value in zip(wanted, oracle.evaluate(wanted, inputs, sizes)):
        got = memory[classes.of[n.id], ""]
        with np.errstate(all="ignore"):
            scale = max(1.0, float(np.max(np.abs(np.where(np.isfinite(value), value, 0)),
                                          initial=0)))
        assert got.dtype == value.dtype and got.shape == value.shape
        if value.dtype.kind == "f":
            # named ops round otherwise than their expansions, and sums in another order
            np.testing.assert_allclose(got, value, 0, 2e-5 * scale)
        else:
            np.testing.assert_array_equal(got, value)
