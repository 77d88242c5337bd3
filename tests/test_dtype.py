"""Dtypes: names, NumPy types, promotion."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tegg.dtype import DTYPES, bf16, bool_, dtype, f16, f32, f64, i8, i32, i64, promote, u8
from tegg.errors import DTypeError

anything = st.sampled_from(list(DTYPES.values()))


@pytest.mark.parametrize(("given_", "want"), [
    ("f32", f32), (np.float32, f32), (np.dtype(">f4"), f32), ("<i8", i64), (f16, f16),
    (ml_dtypes.bfloat16, bf16), ("bfloat16", bf16), (bool, bool_), ("uint8", u8), (float, f64)])
def test_what_names_a_dtype(given_, want):
    assert dtype(given_) is want


@pytest.mark.parametrize("bad", ["f33", np.complex64, object, "U3", None, 7, np.int16, np.uint32])
def test_unknown_dtypes(bad):
    with pytest.raises(DTypeError) as e:
        dtype(bad)
    assert str(e.value) == (f"tegg has no dtype {bad!r}; it has "
                            "f32, f64, f16, bf16, u8, i8, i32, i64, bool")


def test_bfloat16_is_imported_when_it_is_named():
    code = ("import sys, numpy as np, tegg\n"
            "assert tegg.dtype('f4') is tegg.f32 and 'ml_dtypes' not in sys.modules\n"
            "assert tegg.dtype('bfloat16') is tegg.bf16\n"
            "assert tegg.bf16.numpy == np.dtype('bfloat16')")
    subprocess.run([sys.executable, "-c", code], check=True)


@given(anything)
def test_there_is_one_object_per_dtype(d):
    assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d
    assert dtype(d.name) is d and dtype(d.numpy) is d
    assert repr(d) == f"tegg.{d.name}" and d.itemsize == d.numpy.itemsize


@given(anything, anything)
def test_promotion_commutes_and_holds_both(a, b):
    if {a.kind, b.kind} == {"float", "int"}:
        with pytest.raises(DTypeError):
            promote(a, b)
        return
    c = promote(a, b)
    assert c is promote(b, a)
    for d in (a, b):
        assert d.kind == "bool" or np.can_cast(d.numpy, c.numpy) or {d, c} == {bf16, f32}


def test_promotion_by_name():
    assert promote(f16, bf16) is f32 and promote(u8, i8) is i32 and promote(bool_, i32) is i32
    with pytest.raises(DTypeError) as e:
        promote(f32, i64)
    assert str(e.value) == ("f32 and i64 do not mix; write x.cast('f32') or x.cast('i64') "
                            "on one of them")
