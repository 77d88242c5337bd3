"""One kernel of a target against the oracle: what is right passes, what is wrong is made small."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tegg.backends.cpu.target import Cpu
from test_testing import Wrong

from tegg.dim import dim
from tegg.errors import LoweringError
from tegg.ir.classes import Fragment
from tegg.testing import check_kernel, check_results
from tegg.testing.draw import Draw
from tegg.testing.kernels import Placed, random_inputs


def norm(g: Draw):
    x = g.x(dim("n", 1, 64), 40)
    return [g.mul(g.op("Tanh", g.sub(x, g.op("MaxReduce", x, 1))), 2.0), g.total(x, 0)]


def test_a_kernel_that_is_right():
    g = Draw()
    code = check_kernel(Cpu(), g, norm(g), {"n": 5})
    assert code.stages and code.source
    g.outputs = dict(enumerate(norm(g)))
    check_kernel(Cpu(), g, sizes={"n": 1}, inputs=random_inputs(g, {"n": 1}, 3))


class OnlyWhole(Wrong):
    """Takes no node alone."""

    def lower(self, fragment, name, known):
        if len(fragment.graph.reachable(fragment.outputs)) < 3:
            raise LoweringError("too little")
        return super().lower(fragment, name, known)


def test_what_is_no_kernel():
    g = Draw()
    y = g.op("Sqrt", g.exp(g.x(3)))
    with pytest.raises(LoweringError, match="too little"):
        check_kernel(OnlyWhole("Sqrt", "({0} + {0})"), g, [g.x(3)])
    with pytest.raises(AssertionError) as e:
        check_kernel(OnlyWhole("Sqrt", "({0} + {0})"), g, [g.add(y, y)])
    assert "wrong alone: output 0, Sqrt" in str(e.value)  # with what it reads


def test_a_wrong_one_names_the_node_and_a_program():
    """Of a large fragment the one op, on the simplest operands."""
    g = Draw()
    x = g.x(2, 3)
    y = g.add(g.mul(g.op("Sqrt", g.mul(x, x)), 2.0), g.x(2, 3))
    with pytest.raises(AssertionError) as e:
        check_kernel(Wrong("Sqrt", "({0} + {0})"), g, [y])
    told = str(e.value)
    assert told.startswith("output 0, Add, at {}, memory that ends at a page: off by")
    program = told.partition("wrong alone: ")[2]
    assert program.startswith("output 0, Sqrt, at {}")
    assert "np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 'float32')" in program
    out = subprocess.run([sys.executable, "-c", program.partition("\n")[2]], check=True,
                         capture_output=True, text=True).stdout
    assert out == "left  [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]\n"


def test_a_large_one_is_named_without_its_numbers():
    g = Draw()
    with pytest.raises(AssertionError, match=r"wrong alone: .*\nSqrt of f32\[9, 40\]$"):
        check_kernel(Wrong("Sqrt", "({0} + {0})"), g, [g.op("Sqrt", g.exp(g.x(9, 40)))])


def test_results_are_judged_by_the_oracle():
    g = Draw()
    x = g.x(3)
    one = np.ones(3, np.float32)
    check_results([g.mul(x, 2.0)], [2 * one], {0: one})
    with pytest.raises(AssertionError, match=r"output 1, Mul, at \{\}, mine: off by"):
        check_results([x, g.mul(x, 2.0)], [one, 2.01 * one], {0: one}, what="mine")
    check_results([g.mul(x, 2.0)], [2.01 * one], {0: one}, slack=1e3)
    with pytest.raises(AssertionError, match="mine: 0 results of 1 outputs"):
        check_results([x], [], {0: one}, what="mine")


def test_memory_is_shared_where_it_is_written_in_place():
    g = Draw()
    x = g.x(3)
    y = g.mul(x, 2.0)
    code = Cpu().lower(Fragment(g, (y,), ()), "k", frozenset())
    one = np.ones(3, np.float32)
    with Placed(code, g, [y], {0: one}, inplace={0: 0}) as placed:
        assert placed.addresses[0] == placed.addresses[1]
        np.testing.assert_array_equal(placed.results()[0], one)
    with Placed(code, g, [y], {0: one}) as placed:
        assert placed.results()[0].tobytes() == b"\x5a" * 12
