"""Large products of plain operands: one text for all sizes, given when the kernel is called.

Programs are full of such products, and what differs between them is mostly their sizes; and of
arrays in 16 bits, that they are read, and written, in those. Where an operand or a result is
computed on the way, or an axis is a window, sizes stay in the text; and in small products, which
are up to a tenth faster for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tegg.contraction import Spec
from tegg.dim import Dim, Shape, dim
from tegg.dtype import widens
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.template import OWN
from tegg.kernel.code import KernelCode, at_given
from tegg.kernel.packed import altered

# Elements of the second operand from which on the two were equally fast. Of few rows each element
# is used so rarely that memory decides sooner.
_LARGE = {"CpuPacked": 1 << 20, "CpuHalves": 1 << 20, "CpuPairs": 1 << 20, "CpuTiles": 1 << 20,
          "CpuRows": 1 << 19, "CpuDots": 1 << 19}


def generalized(fragment: Fragment) -> tuple[Fragment, Mapping[str, int]] | None:
    """The fragment of a plain product with symbols for its sizes, and what they are; None for any
    other. An axis of one element stays one: it makes simpler code."""
    if not _is_plain(fragment):
        return None
    (product,), (result,) = fragment.anchors, fragment.outputs
    spec = Spec.parse(product.attrs[0])
    lengths = spec.sizes(*(a.shape for a in product.args))
    names = {c: f"size_{i}" for i, c in enumerate(lengths)}  # whatever letters a spec has
    sizes = {names[c]: n for c, n in lengths.items() if n > 1}
    of: dict[str, Dim] = {"": 1} | {c: dim(names[c], 1, None, n) if n > 1 else n
                                    for c, n in lengths.items()}
    graph = Graph(table=fragment.graph.table)
    made = {a: _operand(graph, a, tuple(of[c] for c in axes))
            for a, axes in sorted(zip(product.args, (spec.x, spec.y)), key=lambda p: _slot(p[0]))}
    out = graph.op(product.op.name, *(made[a] for a in product.args), product.attrs[0],
                   tuple(of[c] for c in spec.out), *product.attrs[OWN:])
    long = iter([of[c] for c in spec.out if of[c] != 1])
    outer = graph.reshape(out, tuple(1 if n == 1 else next(long) for n in result.shape))
    stored = outer if result.dtype is out.dtype else graph.op("Cast", outer, result.dtype)
    return Fragment(graph, (stored,), (out,)), sizes


def _operand(graph: Graph, operand: Node, shape: Shape) -> Node:
    """An operand again, of another shape."""
    read = _widened(operand)
    made = graph.input(f"x{read.attrs[0]}", shape, read.dtype)
    return made if read is operand else graph.op("Cast", made, operand.dtype)


def _is_plain(fragment: Fragment) -> bool:
    """Whether a fragment is a large product of its two inputs, with axes of one element put in or
    left out at most, and all sizes known."""
    if len(fragment.anchors) != 1 or len(fragment.outputs) != 1:
        return False
    (product,), (result,) = fragment.anchors, fragment.outputs
    if product.op.name not in _LARGE or len(fragment.graph.inputs) != 2:
        return False
    if sorted(map(_slot, product.args)) != [0, 1] or not _becomes(result, product):
        return False
    every = [n for v in (*product.args, product, result) for n in v.shape]
    return (all(isinstance(n, int) and n > 0 for n in every) and _long(product) == _long(result)
            and math.prod(map(int, product.args[1].shape)) >= _LARGE[product.op.name])


def _slot(operand: Node) -> int:
    """Which input an operand is; -1 for one that is computed."""
    read = _widened(operand)
    return read.attrs[0] if read.op.name == "Input" else -1


def _widened(operand: Node) -> Node:
    """What is read for an operand: of a float that is held in fewer bits, what is made wide."""
    wide = operand.op.name == "Cast" and widens(operand.args[0].dtype, operand.dtype)
    return operand.args[0] if wide else operand


def _becomes(result: Node, product: Node) -> bool:
    """Whether a result is a product, or that reshaped, or rounded to fewer bits as well."""
    if result.op.name in ("Cast", "Held") and widens(result.dtype, result.args[0].dtype):
        result = result.args[0]
    if result.op.name == "Reshape":
        result = result.args[0]
    return result is product


def _long(v: Node) -> list[Dim]:
    return [n for n in v.shape if n != 1]


def given(code: KernelCode, sizes: Mapping[str, int]) -> KernelCode:
    """A kernel that is called at these sizes, whatever program it is part of."""
    return altered(at_given(code, tuple(sizes[s] for s in code.symbols)),
                   temporaries=tuple(t.at(sizes) for t in code.temporaries))
