"""A kernel's body as a graph of its own, for lowering, and for running it through the oracle."""

from __future__ import annotations

from tegg.ir.classes import EClasses, Fragment, KernelSpec
from tegg.dtype import DTYPES, DType
from tegg.errors import ExtractionError
from tegg.ir.op import PRODUCTS
from tegg.ir.graph import Graph, Node


def fragment(spec: KernelSpec, classes: EClasses) -> Fragment:
    """Input slot i reads ``spec.leaves[i]``; one output per ``spec.outs``, in order.

    A leaf or output in a storage form that is a dtype is cast where it is read or written.
    """
    graph = Graph(table=classes.table, facts=classes.graph.facts)
    nodes: dict[int, Node] = {}
    for i, c in enumerate(spec.leaves):
        stored = form_dtype(spec.form_of_leaf(i), classes.dtype[c])
        read = graph.input(f"b{i}", classes.shape[c], stored)
        nodes[c] = graph.cast(read, classes.dtype[c])
    for c in body_order(spec):
        n = spec.body[c]
        nodes[c] = node = graph.op(n.op.name, *(nodes[a] for a in n.args), *n.attrs)
        same = map(classes.graph.facts.canonical, node.shape)
        assert (tuple(same) == tuple(map(classes.graph.facts.canonical, classes.shape[c]))
                and node.dtype is classes.dtype[c]), (c, node, classes.shape[c])
    outs = []
    for i, c in enumerate(spec.outs):
        stored = form_dtype(spec.form_of_out(i), classes.dtype[c])
        outs.append(graph.cast(nodes[c], stored))
        graph.outputs[f"o{i}"] = outs[-1]
    anchors = tuple(nodes[c] for c in spec.body if spec.body[c].op.kind in PRODUCTS)
    return Fragment(graph, tuple(outs), anchors if spec.anchor is not None else ())


def form_dtype(form: str, own: DType) -> DType:
    """The dtype in which a value of a storage form lies in memory.

    Raises ExtractionError for a form that is no dtype.
    """
    if form and form not in DTYPES:
        raise ExtractionError(f"the storage form {form!r} is no dtype, so a fragment cannot cast "
                              f"to it; dtypes are {', '.join(DTYPES)}")
    return DTYPES[form] if form else own


def body_order(spec: KernelSpec) -> list[int]:
    """The classes that the outputs need, operands first."""
    order: dict[int, None] = {}
    for root in spec.outs:
        stack = [root]
        while stack:
            c = stack[-1]
            if c in order or c not in spec.body:
                stack.pop()
                continue
            waiting = [a for a in spec.body[c].args if a in spec.body and a not in order]
            if waiting:
                stack.append(waiting[0])
            else:
                order.setdefault(c)
                stack.pop()
    return list(order)
