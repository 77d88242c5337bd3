"""What a contraction inside of a kernel executes, and whether its panels are known before a run."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from tegg.contraction import Spec
from tegg.dim import hint, product
from tegg.ir.demand import Product, Values
from tegg.ir.template import Extents


def product_of(node: Any, values: Values, body: Mapping[int, Any], ready: Container[int],
               seen: float) -> Product:
    """The product of a contraction, at the hints of its sizes.

    ready: values that are known before a run. seen: the share of it that a mask does not hide.
    """
    x, y = node.args
    spec = Spec.parse(node.attrs[0])
    size = spec.sizes(values.shape[x], values.shape[y])
    batch, m, n, k = (hint(product(tuple(size[letter] for letter in letters)))
                      for letters in (spec.batch, spec.m, spec.n, spec.k))
    done = Extents(batch, m, n, k, values.dtype[x])
    execution = node.op.template(node.attrs, done) if node.op.template else None
    if execution and seen < 1:
        execution = replace(execution, flops=execution.flops * seen, beside=execution.beside * seen)
    packed = node.args[execution.packs] if execution else y
    return Product(done, node.op.name, execution, _known(packed, body, ready))


def _known(a: int, body: Mapping[int, Any], ready: Container[int]) -> bool:
    """Whether a value is known before a run: made of such values and constants alone."""
    todo, seen = [a], set()
    while todo:
        c = todo.pop()
        if c in seen or c in ready:
            continue
        if c not in body or body[c].op.name == "Size":
            return False
        seen.add(c)
        todo.extend(body[c].args)
    return True
