"""What the reference says of public ops is there for each, and true of its dtypes and axes."""

from __future__ import annotations

import inspect
import runpy
import sys
from pathlib import Path

import pytest

import tegg
from tegg.errors import DTypeError, ShapeError
from tegg.ops import reference
from tegg.ops.examples import IMPOSSIBLE, example
from tegg.ops.public import PUBLIC
from tegg.ops.reference import TOLD

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
PAGE = runpy.run_path(str(ROOT / "tools" / "ops_page.py"))
GROUPS = {"floats": {"f32"}, "integers": {"i64"}, "numbers": {"f32", "i64"}, "bool": {"bool"},
          "any": {"f32", "i64", "bool"}}

# Examples whose other operands are float or integer numbers, so that they say less than the op.
NARROW = {"full_like", "pad", "clamp", "where", "scatter", "index_put", "nan_to_num", "prelu",
          "interpolate", "hardtanh"}
COMPARED = {"logical_and", "logical_or", "logical_xor", "logical_not", "where", "lerp"}  # not x alone


def accepted(name: str) -> set[str]:
    """The dtypes that x of the example may have."""
    found = set()
    for dtype in ("f32", "i64", "bool"):
        try:
            PAGE["run"](name, tegg.dtype(dtype))
        except tegg.TeggError:
            continue
        found.add(dtype)
    return found


def test_every_op_is_told():
    assert set(TOLD) == set(PUBLIC)
    said = " ".join(reference._TOLD.values()).split()
    assert len(said) == len(TOLD), "an op in two groups"


@pytest.mark.parametrize("name", PUBLIC)
def test_help_shows_shapes_dtypes_errors_and_an_example(name):
    text = inspect.getdoc(PUBLIC[name].function) or ""
    assert all(f"\n{word}: " in text for word in ("Shapes", "Dtypes", "Raises")), text
    assert name in IMPOSSIBLE or f"\nExample: {example(name)} " in text


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in IMPOSSIBLE])
def test_dtypes_are_those_that_the_op_takes(name):
    operand = {"x", "y", "image", "ones"} & set(compile(example(name), "", "eval").co_names)
    if PUBLIC[name].family == "create" or not operand or name in COMPARED:
        return
    said = GROUPS[TOLD[name].dtypes.split()[0].rstrip(";,")]
    found = accepted(name)
    assert found <= said and (name in NARROW or found == said), (said, found)


@pytest.mark.parametrize("name", [n for n, told in TOLD.items() if "axis outside x" in told.errors
                                  and n in PUBLIC and "dim" in PUBLIC[n].keywords])
def test_an_axis_outside_is_refused(name):
    x = tegg.Graph().tensor((2, 3))
    more = {"topk": (1,), "excise": (1, 1), "unflatten": ((3,),), "split": (1,), "chunk": (1,),
            "tensor_split": (1,), "roll": (1,)}
    given = {"narrow": dict(start=0, length=1), "unfold": dict(size=1)}
    second = (x,) if "y" in inspect.signature(PUBLIC[name].function).parameters else ()
    with pytest.raises(ShapeError, match=rf"^{name}: "):
        PUBLIC[name].function(x, *second, *more.get(name, ()), dim=9, **given.get(name, {}))


@pytest.mark.parametrize("name", [n for n, told in TOLD.items() if told.dtypes == "floats"
                                  and told.shapes == "as x" and n in PUBLIC])
def test_what_takes_floats_refuses_integers(name):
    more = {"threshold": (1, 0)}
    with pytest.raises(DTypeError, match=rf"^{name}: "):
        PUBLIC[name].function(tegg.Graph().tensor((2, 3), "i64"), *more.get(name, ()))
