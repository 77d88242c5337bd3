"""What the package offers is found by name where it is installed."""

from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest

import tegg
from tegg.extend import find_compiler, find_target

try:
    distribution("tegg-example")
except PackageNotFoundError:
    pytest.skip("the package is not installed", allow_module_level=True)


def test_it_is_found_by_name():
    assert find_compiler("moving").name == "moving"
    assert find_target("toy").name == "toy"
    x = np.ones((2, 3), np.float32)
    assert tegg.compile(lambda x: x * 2, device="toy")(x).tolist() == [[2.0] * 3] * 2
