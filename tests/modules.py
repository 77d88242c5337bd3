"""Modules run by the oracle, and compiled, for the tests of layers and models."""

from __future__ import annotations

import json

import numpy as np

import tegg
from tegg.ir.oracle import evaluate
from tegg.tree import flatten, unflatten


def is_array(x):
    return isinstance(x, np.ndarray)


def oracle(module, *args, **kwargs):
    """What a module gives by the meanings of its ops, and the new states by input names."""
    traced = tegg.trace(module, args, kwargs)
    graph = traced.graph
    leaves = [leaf for _, leaf in flatten((args, kwargs), is_array)[0]]
    values = dict(zip(traced.slots, leaves))
    values.update({i: s.source.data for i, s in enumerate(graph.inputs) if s.source is not None})
    found = evaluate([*graph.outputs.values(), *graph.updates.values()], values)
    states = {graph.inputs[slot].name: v
              for slot, v in zip(graph.updates, found[len(graph.outputs):])}
    return unflatten(traced.outputs, found[:len(graph.outputs)]), states


def randomise(module, seed=0, scale=0.3):
    """The module with every parameter drawn anew, norms near 1, so that nothing is trivial."""
    rng = np.random.default_rng(seed)
    module.load_state_dict({
        name: (rng.normal(size=a.shape) * scale + ("norm" in name and name.endswith("weight"))
               ).astype(a.dtype) for name, a in module.state_dict().items()})
    return module


def agree(module, *args, atol=2e-5, **options):
    """Compiled equals the oracle; gives the result."""
    want, _ = oracle(module, *args)
    got = tegg.compile(module, device="cpu", **options)(*args)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=atol)
    return got


def drawn(shapes, seed=0, scale=0.3):
    """Random weights by name; those of norms are near 1."""
    rng = np.random.default_rng(seed)
    return {name: (rng.normal(size=shape) * scale
                   + (("norm" in name or "ln_" in name) and name.endswith("weight"))
                   ).astype(np.float32) for name, shape in shapes.items()}


def written(folder, config, state):
    """A model's folder, as downloads have it."""
    (folder / "config.json").write_text(json.dumps(config))
    tegg.save_safetensors(folder / "model.safetensors", state)
    return folder
