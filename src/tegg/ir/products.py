"""What a contraction inside of a kernel executes, and whether its panels are known before a run."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import DType
from tegg.ir.demand import Product, Values
from tegg.ir.op import Op
from tegg.ir.template import Execution, Extents


Executed = tuple[Extents, Execution | None]  # what is multiplied, and what its template says


def product_of(node: Any, values: Values, body: Mapping[int, Any], ready: Container[int],
               seen: float, known: dict[tuple, Executed]) -> Product:
    """The product of a contraction, at the hints of its sizes.

    ready: values that are known before a run. seen: the share of it that a mask does not hide.
    known: what was executed by others; each is asked for in every kernel around it.
    """
    x, y = node.args
    key = node.op, node.attrs, values.shape[x], values.shape[y], values.dtype[x], seen
    found = known.get(key)
    if found is None:
        found = known[key] = _executed(*key)
    done, execution = found
    packed = node.args[execution.packs] if execution else y
    return Product(done, node.op.name, execution, _known(packed, body, ready))


def _executed(op: Op, attrs: tuple, x: Shape, y: Shape, dtype: DType, seen: float) -> Executed:
    """What a contraction of operands of these shapes executes."""
    spec = Spec.parse(attrs[0])
    size = spec.sizes(x, y)
    batch, m, n, k = (hint(product(tuple(size[letter] for letter in letters)))
                      for letters in (spec.batch, spec.m, spec.n, spec.k))
    done = Extents(batch, m, n, k, dtype)
    execution = op.template(attrs, done) if op.template else None
    if execution and seen < 1:
        execution = replace(execution, flops=execution.flops * seen, beside=execution.beside * seen)
    return done, execution


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
