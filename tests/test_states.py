"""States that take one another's old values: all are replaced as if at once."""

import contextlib

import numpy as np
import pytest
from simt import fake_driver, fake_metal
from tegg.testing.kernels import random_inputs

import tegg

DEVICES = {"cpu": contextlib.nullcontext, "cuda": fake_driver.installed,
           "metal": fake_metal.installed}
A, B, C = (np.arange(n, n + 9, dtype=np.float32).reshape(3, 3) % 5 for n in range(3))


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


def shifted(a, b, c):
    """What was a step ago, and two steps ago."""
    tegg.state(b, a)
    tegg.state(c, b)
    tegg.state(a, a * 0.5 + 1)
    return a + b + c


def exchange_beside(a, b, c):
    tegg.state(a, b)
    tegg.state(b, a)
    tegg.state(c, c + a)
    return a * 2


def summed(a, b, c):
    """A new value is one that another state takes, and is computed from."""
    tegg.state(b, a * 1.0)
    tegg.state(a, a @ c)
    return b @ b


MEANINGS = {exchange: lambda a, b: (b, a), rotate: lambda a, b, c: (b, c, a),
            delay: lambda a, b: (b, b * 2), delays: lambda a, b, c: (c, c, c + 1),
            backwards: lambda a, b: (b, a + b),
            shifted: lambda a, b, c: (a * 0.5 + 1, a, b),
            exchange_beside: lambda a, b, c: (b, a, c + a), summed: lambda a, b, c: (a @ c, a, c)}


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with DEVICES[request.param]():
        yield request.param


@pytest.mark.parametrize("step", MEANINGS)
def test_states_take_old_values(device, step):
    """However often, and through the call path that is prepared."""
    run = tegg.compile(step, device=device)
    arrays = [v.copy() for v in (A, B, C)[:step.__code__.co_argcount]]
    for _ in range(3):
        old = [v.copy() for v in arrays]
        out = run(*arrays)
        for got, want in zip(arrays, MEANINGS[step](*old), strict=True):
            np.testing.assert_array_equal(got, want)
        if step is delay:
            np.testing.assert_array_equal(out, old[0])


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


def test_what_is_put_aside_shares_no_memory_that_is_read_later():
    g = tegg.Graph()
    a, b, mean = (g.tensor((64, 64), name=n) for n in ("a", "b", "mean"))
    tegg.state(a, b)
    tegg.state(b, a)
    tegg.state(mean, ((a @ b).softmax(-1) @ mean).softmax(0))
    run = g.compile([tegg.Generic()])
    values = {g.inputs[i].name: v for i, v in random_inputs(g, {}, 1).items()}
    held = {n: v.copy() for n, v in values.items()}
    run(**held)
    np.testing.assert_array_equal(held["a"], values["b"])
    np.testing.assert_array_equal(held["b"], values["a"])
    np.testing.assert_allclose(held["mean"].sum(0), 1, 1e-5)


def test_a_state_is_not_copied_where_the_other_stays():
    g = tegg.Graph()
    a, b = g.tensor((3,), name="a"), g.tensor((3,), name="b")
    tegg.state(a, b)
    program = g.compile(cache=False)
    assert not program.plan.before and not any(x.kind == "arena" for x in program.plan.buffers)
