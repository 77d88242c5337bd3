"""States that take one another's old values: all are replaced as if at once."""

import contextlib

import numpy as np
import pytest
from simt import fake_driver, fake_metal

import tegg

DEVICES = {"cpu": contextlib.nullcontext, "cuda": fake_driver.installed,
           "metal": fake_metal.installed}
A, B, C = (np.arange(n, n + 6, dtype=np.float32).reshape(2, 3) for n in (0, 10, 20))


def exchange(a, b):
    tegg.state(a, b)
    tegg.state(b, a)


def rotate(a, b, c):
    tegg.state(a, b)
    tegg.state(b, c)
    tegg.state(c, a)
    return a + b


def delay(a, b):
    """a is what b was, while a kernel writes b in place."""
    tegg.state(a, b)
    tegg.state(b, b * 2)
    return a


def delays(a, b, c):
    """Two keep what one was."""
    tegg.state(c, c + 1)
    tegg.state(a, c)
    tegg.state(b, c)


def backwards(a, b):
    tegg.state(b, a + b)
    tegg.state(a, b)
    return b.flip(1), (a @ b.T).softmax(-1)


CASES = [(exchange, (A, B), (B, A)), (rotate, (A, B, C), (B, C, A)), (delay, (A, B), (B, B * 2)),
         (delays, (A, B, C), (C, C, C + 1)), (backwards, (A, B), (B, A + B))]


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with DEVICES[request.param]():
        yield request.param


@pytest.mark.parametrize(("step", "old", "new"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_states_take_old_values(device, step, old, new):
    arrays = [v.copy() for v in old]
    out = tegg.compile(step, device=device)(*arrays)
    for got, want in zip(arrays, new, strict=True):
        np.testing.assert_array_equal(got, want)
    if step is delay:
        np.testing.assert_array_equal(out, A)


def test_what_is_kept_aside_has_memory_of_its_own():
    """Temporaries of a run do not lie where old values wait for its end; at any size."""
    n = tegg.dim("n", max=64, hint=8)

    def step(a, b):
        tegg.state(a, b)
        h = (b @ b.T).softmax(-1) @ b
        tegg.state(b, (h @ h.T).softmax(-1) @ h * 3)

    f = tegg.compile(step, dims={"a": (n, None), "b": (n, None)}, cache=False)
    for rows in (1, 8, 33):
        b = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
        a, old = np.zeros_like(b), b.copy()
        f(a, b)
        np.testing.assert_array_equal(a, old)
        assert not np.allclose(b, old)


def test_a_state_is_not_copied_where_the_other_stays():
    g = tegg.Graph()
    a, b = g.tensor((3,), name="a"), g.tensor((3,), name="b")
    tegg.state(a, b)
    program = g.compile(cache=False)
    assert not program.plan.before and not any(x.kind == "arena" for x in program.plan.buffers)
