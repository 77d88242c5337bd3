"""Programs as files: they come back whole, and damaged files are refused."""

import pickle

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, BackendError
from tegg.nn import Linear


def test_a_saved_program_runs_with_its_weights(tmp_path):
    layer = Linear(4, 3)
    x = np.ones((2, 4), np.float32)
    f = tegg.compile(lambda x: layer(x))
    want = f(x)
    tegg.save(f.program(x), tmp_path / "p.tegg")
    layer.weight.data = np.zeros((3, 4), np.float32)
    again = tegg.load(tmp_path / "p.tegg")
    np.testing.assert_array_equal(next(iter(again(x).values())), want)


def test_buckets_are_saved_whole(tmp_path):
    f = tegg.compile(lambda x: x * 2, dims={"x": (tegg.dim("n", hint=(2, 50)),)})
    x = np.arange(3, dtype=np.float32)
    tegg.save(f.program(x), tmp_path / "p.tegg")
    np.testing.assert_array_equal(next(iter(tegg.load(tmp_path / "p.tegg")(x).values())), x * 2)


@pytest.mark.parametrize("data, text", [
    (b"", "is no saved program"), (b"\x80garbage", "is no saved program"),
    (b"\x80\x05\x95" + b"\xff" * 8, "is no saved program: FRAME length exceeds"),
    (pickle.dumps({"a": 1}), "holds a dict, no saved program")])
def test_other_files_are_refused(tmp_path, data, text):
    path = tmp_path / "p.tegg"
    path.write_bytes(data)
    with pytest.raises(ArgumentError, match=text):
        tegg.load(path)


def test_damage_is_seen(tmp_path):
    """One bit of a weight, or an end that is missing."""
    w, path = np.ones((3, 4), np.float32), tmp_path / "p.tegg"
    tegg.save(tegg.compile(lambda x: x @ w).program(np.ones((2, 3), np.float32)), path)
    whole = path.read_bytes()
    at = whole.index(w.tobytes()) + 5
    for data in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:], whole[:-1], whole[:40]):
        path.write_bytes(data)
        with pytest.raises(ArgumentError, match="p.tegg is damaged, or was not copied to its end; "
                                                "save the program again"):
            tegg.load(path)


def test_a_file_without_a_digest_is_read(tmp_path):
    """As it was written once."""
    program = tegg.compile(lambda x: x + 1).program(np.ones(3, np.float32))
    (tmp_path / "p.tegg").write_bytes(pickle.dumps(program))
    assert tegg.load(tmp_path / "p.tegg")(np.ones(3, np.float32))["out"].tolist() == [2, 2, 2]


def test_others_may_read_what_the_umask_allows(tmp_path):
    program = tegg.compile(lambda x: x + 1).program(np.ones(3, np.float32))
    (tmp_path / "plain").write_bytes(b"")
    tegg.save(program, tmp_path / "p.tegg")
    tegg.save_safetensors(tmp_path / "w.safetensors", {})
    for name in ("p.tegg", "w.safetensors"):
        assert (tmp_path / name).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ArgumentError, match="none.tegg is no saved program"):
        tegg.load(tmp_path / "none.tegg")


def test_only_programs_are_saved(tmp_path):
    with pytest.raises(ArgumentError, match="save takes a compiled program, such as f.program"):
        tegg.save(lambda x: x, tmp_path / "p.tegg")
    assert not list(tmp_path.iterdir())


def test_a_program_keeps_what_its_device_was_told(tmp_path):
    """Which GPU, where results are, how kernels are started."""
    from simt import fake_driver
    x = np.arange(6, dtype=np.float32)
    with fake_driver.installed() as fake:
        fake.set(devices=2)
        stack = (tegg.Generic(), tegg.Cuda(device=1, results="device", graph=False))
        program = tegg.compile(lambda x: x + 1, *stack).program(x)
        tegg.save(program, tmp_path / "p.tegg")
        again = tegg.load(tmp_path / "p.tegg")
        assert again.target.settings == {"number": 1, "results": "device", "graph": False,
                                         "blas": False}
        (made,) = again(x).values()
        np.testing.assert_array_equal(made.numpy(), x + 1)
        assert not isinstance(made, np.ndarray)
    with fake_driver.installed() as fake, pytest.raises(
            BackendError, match="there is no GPU 1: NVIDIA's driver finds 1"):
        fake.set(devices=1)
        tegg.load(tmp_path / "p.tegg")
