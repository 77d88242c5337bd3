"""Safetensors: lazy views, every dtype, damaged files, atomic writes."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from tegg.testing.strategies import arrays, shapes
from tegg.dtype import DTYPES
from tegg.errors import WeightsError


@given(st.data())
def test_round_trip(tmp_path_factory, data):
    names = data.draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(
        lambda n: n != "__metadata__"), unique=True, max_size=4))
    tensors = {n: data.draw(arrays(data.draw(shapes), data.draw(
        st.sampled_from(list(DTYPES.values()))), specials=True)) for n in names}
    path = tmp_path_factory.mktemp("w") / "x.safetensors"
    tegg.save_safetensors(path, tensors, {"k": 1})
    back = tegg.load_safetensors(path)
    assert set(back) == set(names) and len(back) == len(names) and back.metadata == {"k": "1"}
    for n, a in tensors.items():
        assert back[n].dtype == a.dtype and back[n].shape == a.shape
        assert back[n].tobytes() == np.ascontiguousarray(a).tobytes()
        assert not back[n].flags.writeable and back[n].flags.aligned


def written(tmp_path, header, data=b""):
    text = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_views_are_lazy_and_strided_arrays_are_saved_by_value(tmp_path):
    path = tmp_path / "x.safetensors"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tegg.save_safetensors(path, {"t": x.T, "b": x[:, ::-1]})
    back = tegg.load_safetensors(path)
    assert (back["t"] == x.T).all() and (back["b"] == x[:, ::-1]).all()
    assert "t" in back and "z" not in back and back.get("z") is None and back.get("t") is not None
    assert repr(back) == f"SafeTensors({str(path)!r}, 2 tensors)"


def test_an_unaligned_file_is_read(tmp_path):
    header = {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
              "x": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}}
    path = written(tmp_path, header, b"\x07" + np.float32([1, 2]).tobytes())
    x = tegg.load_safetensors(path)["x"]
    assert x.tolist() == [1, 2] and x.flags.aligned and not x.flags.writeable


def damaged():
    good = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    body = b"\0" * 8
    text = json.dumps(good).encode()
    whole = struct.pack("<Q", len(text)) + text + body
    yield "empty", b""
    yield "cut in the size", whole[:5]
    yield "cut in the header", whole[:20]
    yield "cut in the data", whole[:-1]
    yield "too long", whole + b"\0"
    yield "header beyond the file", struct.pack("<Q", 1 << 40) + whole[8:]
    yield "no json", struct.pack("<Q", 4) + b"{[}]" + body
    for name, change in (("shape", {"shape": [3]}), ("offsets", {"data_offsets": [0, 80]}),
                         ("backwards", {"data_offsets": [8, 0]}), ("dtype", {"dtype": "F31"}),
                         ("negative", {"shape": [-2]}), ("hole", {"data_offsets": [4, 12]})):
        lie = json.dumps({"x": {**good["x"], **change}}).encode()
        yield name, struct.pack("<Q", len(lie)) + lie + body


@pytest.mark.parametrize("data", [pytest.param(d, id=n) for n, d in damaged()])
def test_damaged_files(tmp_path, data):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(WeightsError, match="cannot be read as safetensors: .*; it is damaged, or "
                                           "was not copied to its end"):
        tegg.load_safetensors(path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(WeightsError, match="is a folder; load_safetensors takes one .safetens"):
        tegg.load_safetensors(tmp_path)
    with pytest.raises(WeightsError, match="there is no file .*nothing"):
        tegg.load_safetensors(tmp_path / "nothing")
    path = tmp_path / "x.safetensors"
    tegg.save_safetensors(path, {"weight": np.ones(2)})
    with pytest.raises(WeightsError) as e:
        tegg.load_safetensors(path)["wieght"]
    assert str(e.value) == f"{path} has no tensor 'wieght'; did you mean 'weight'?"


def test_a_dtype_that_tegg_lacks(tmp_path):
    path = written(tmp_path, {"x": {"dtype": "U16", "shape": [1], "data_offsets": [0, 2]}}, b"ab")
    with pytest.raises(WeightsError, match="'x' is U16, which tegg has not"):
        tegg.load_safetensors(path)["x"]


def test_any_layout_and_byte_order_is_written(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"big": x.astype(">f4"), "fortran": np.asfortranarray(x), "turned": x[::-1, ::2],
             "scalar": np.array(3, ">i8"), "empty": np.ones((0, 3))}
    tegg.save_safetensors(tmp_path / "x", given)
    for name, array in tegg.load_safetensors(tmp_path / "x").items():
        np.testing.assert_array_equal(array, given[name])
        assert array.dtype.isnative and array.shape == given[name].shape


def test_writes_are_all_or_nothing(tmp_path):
    path = tmp_path / "x.safetensors"
    tegg.save_safetensors(path, {"x": np.ones(2)})
    before = path.read_bytes()
    with pytest.raises(WeightsError) as e:
        tegg.save_safetensors(path, {"x": np.ones(2), "y": np.ones(2, complex)})
    assert str(e.value) == ("'y' is complex128; safetensors are "
                            "F64, F32, F16, BF16, I64, I32, I8, U8, BOOL")
    for tensors, metadata, text in (
            ([np.ones(2)], None, "save_safetensors: tensors is a dict by name, not [array("),
            ({}, 3, "save_safetensors: metadata is a dict by name, not 3"),
            ({"__metadata__": np.ones(2)}, None, "'__metadata__' is the format's own name, which "
                                                 "no tensor can have; give text as metadata="),
            ({1: np.ones(2), "1": np.ones(2)}, None, "two tensors are named '1', and a file holds "
                                                     "one of a name")):
        with pytest.raises(WeightsError) as e:
            tegg.save_safetensors(path, tensors, metadata)
        assert str(e.value).startswith(text)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(WeightsError, match="nowhere/x cannot be written: "):
        tegg.save_safetensors(tmp_path / "nowhere" / "x", {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(WeightsError, match="folder cannot be written: "):
        tegg.save_safetensors(tmp_path / "folder", {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "x.safetensors"]


def test_weights_join_a_graph_unread(tmp_path):
    path = tmp_path / "x.safetensors"
    tegg.save_safetensors(path, {"weight": np.ones((2, 3), ml_dtypes.bfloat16)})
    layer = tegg.nn.Linear(3, 2, bias=False, dtype="bf16")
    layer.load_state_dict(tegg.load_safetensors(path))
    assert layer.weight.data.dtype == ml_dtypes.bfloat16 and not layer.weight.data.flags.owndata
