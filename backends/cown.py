"""Ops that third parties bring with C of their own: expressions in loops, or whole functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Template as Text

from tegg.backends.cexpr import MEMORY, constant, dim
from tegg.dim import Dim, Poly, hint, product
from tegg.dtype import DType
from tegg.errors import BackendError
from tegg.ir.code import CLASSES, Code, code_of
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op, OpTable
from tegg.kernel.code import Stage, Work
from tegg.kernel.lower import Template, Templated

_TYPES = {"f": "float", "d": "double", "h": "uint16_t", "g": "uint16_t", "i": "int32_t",
          "l": "int64_t", "u": "uint8_t", "c": "int8_t", "b": "uint8_t"}


def own_code(table: OpTable) -> tuple[tuple[Op, Code], ...]:
    """The rows of a table that bring C, with it."""
    return tuple((op, code) for op in table.values() if op.code
                 and (code := code_of(op, "c")) is not None)


def spellings(own: Sequence[tuple[Op, Code]]) -> dict[tuple[str, str], str]:
    """``(op name, class) -> expression``, as a Dialect has them."""
    return {(op.name, c): text for op, code in own for c in CLASSES
            if (text := getattr(code, c))}


def templates(own: Sequence[tuple[Op, Code]]) -> dict[str, Template]:
    """The functions of ops of kind ``kernel``."""
    return {op.name: _template(op, code) for op, code in own if code.body}


def with_functions(source: str, graph: Graph, own: Sequence[tuple[Op, Code]]) -> str:
    """A kernel's source below the functions of the ops that it uses, each once a unit."""
    used = {n.op.name for n in graph.nodes}
    above = [f"#ifndef TEGG_OP_{op.name}\n#define TEGG_OP_{op.name}\n{code.functions.strip()}\n"
             f"#endif\n" for op, code in own if code.functions and op.name in used]
    return "".join(above) + source


def _template(op: Op, code: Code) -> Template:
    def made(node: Node, name: str, reads: tuple[int, ...], write: int,
             temporary: Callable[[DType, Dim], int], symbols: tuple[str, ...]) -> Templated:
        lines = [f"  const int64_t S_{s} = sizes[{i}]; (void)S_{s};"
                 for i, s in enumerate(symbols)]
        for i, (a, slot) in enumerate(zip(node.args, reads)):
            lines += _array(f"x{i}", a, slot, "const ")
        lines += _array("y", node, write, "")
        text = _substituted(op, code, node)
        source = "\n".join([f"void {name}(void *const *buffers, const int64_t *sizes, int tid, "
                            f"int nt) {{", "  (void)sizes; (void)tid; (void)nt;", *lines,
                            text.strip("\n"), "}\n"])
        counts = [hint(product(a.shape)) for a in (*node.args, node)]
        sizes = [a.dtype.itemsize for a in (*node.args, node)]
        work = Work(int(counts[-1] * op.cost), counts[-1],
                    sum(c * s for c, s in zip(counts[:-1], sizes)), counts[-1] * sizes[-1])
        stage = Stage(name, frozenset(reads), frozenset((write,)))
        return Templated(source, (stage,), work)

    return made


def _array(name: str, node: Node, slot: int, const: str) -> list[str]:
    kind = _TYPES[MEMORY[node.dtype.name]]
    sizes = ", ".join(map(dim, node.shape)) or "1"
    return [f"  {const}{kind} *const {name} = buffers[{slot}]; (void){name};",
            f"  const int64_t {name}_shape[] = {{{sizes}}}; (void){name}_shape;"]


def _substituted(op: Op, code: Code, node: Node) -> str:
    """The body with attributes and types written in. Raises BackendError for an unknown name."""
    names: Mapping[str, str] = {
        **{name: _attribute(value, kind, node)
           for (name, kind), value in zip(op.attrs, node.attrs)},
        **{f"T{i}": _TYPES[MEMORY[a.dtype.name]] for i, a in enumerate(node.args)},
        "T": _TYPES[MEMORY[node.dtype.name]]}
    try:
        return Text(code.body).substitute(names)
    except (KeyError, ValueError) as e:
        raise BackendError(f"the C body of op {op.name!r} cannot be filled in: {e}; it may name "
                           f"{', '.join('$' + n for n in names)}") from None


def _attribute(value: object, kind: str, node: Node) -> str:
    if kind == "bits" and isinstance(value, int):
        return constant(value, node.dtype)
    if isinstance(value, tuple):
        return "{" + ", ".join(dim(v) for v in value) + "}"
    return dim(value) if isinstance(value, (int, Poly)) else str(value)
