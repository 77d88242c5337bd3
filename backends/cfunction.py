"""Functions and hooks of C-family source: what stands around the statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tegg.backends.cexpr import MEMORY, Dialect
from tegg.backends.cstyle import Printer
from tegg.dtype import f32
from tegg.kernel.index import Algebra, Var
from tegg.kernel.lined import is_half
from tegg.kernel.loops import Function, Stmt
from tegg.kernel.value import Val


def print_function(dialect: Dialect, algebra: Algebra, f: Function) -> str:
    """The C-family source of one kernel function."""
    p = Printer(dialect, algebra)
    for i, name in enumerate(f.symbols):
        p.line(f"const int64_t S_{name} = sizes[{i}];")
    for slot, d in sorted(f.buffers.items()):
        letter, where = MEMORY[d.name], f"buffers[{slot}]"
        if slot in f.lined:
            p.line(f"char line{slot}[{f.lined[slot]}] __attribute__((aligned(64)));")
            at = "at_line"
            if is_half(d):
                at, letter = f"{letter}_line", MEMORY[f32.name]
                p.letters[slot] = letter
            where = f"{at}({where}, line{slot}, sizeof line{slot})"
        kind = dialect.memory[letter]
        p.line(f"{kind} *const b{slot} = ({kind} *){where};")
    p.block(f.body)
    unused = "  (void)buffers; (void)sizes; (void)tid; (void)nt;"
    head = f"void {f.name}(void *const *buffers, const int64_t *sizes, int tid, int nt) {{"
    return "\n".join([head, unused, *p.lines, "}"]) + "\n"


def print_hook(dialect: Dialect, algebra: Algebra, stmts: Sequence[Stmt], results: Iterable[Val],
               names: Mapping[Var, str], given: Mapping[int, str], vector: Var | None = None,
               masked: bool = False, copies: int = 1) -> tuple[list[str], list[str]]:
    """Lines of a hook body, and the expression of each result.

    names: open loop variables. given: value id -> expression (a vector where the value has lanes).
    copies: vectors side by side; what is given of copy 1 ends in ``_1``.
    """
    p = Printer(dialect, algebra)
    p.names.update(names)
    p.at.given, p.at.vector, p.at.masked, p.at.copies = given, vector, masked, copies
    p.at.further = {(v, u): f"{n}_{u}" for v, n in given.items() for u in range(1, copies)}
    p.block(stmts)
    return p.lines, [p.ref(v, 0, vector is not None) for v in results]
