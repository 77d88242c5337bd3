"""How the operands of a contraction lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tegg.dim import Dim, product
from tegg.kernel.contraction_classify import Contraction
from tegg.kernel.index import Form, Var
from tegg.kernel.value import Load


def in_rows(c: Contraction, load: Load) -> bool:
    """Whether what is read of A are rows that are evenly spaced and contiguous along all of k."""
    if load.guards or not c.k or len(c.m) > 1:
        return False
    steps = [product(tuple(v.extent for v in c.k[i + 1:])) for i in range(len(c.k))]
    return (all(load.form.coefficient(v) == step for v, step in zip(c.k, steps))
            and all(isinstance(atom, Var) for atom in load.form.terms))


def in_columns(load: Load, batch: Sequence[Var], n: Sequence[Var], k: Sequence[Var]) -> bool:
    """Whether what is read of B are rows that are evenly spaced and contiguous along all of n."""
    form = load.form
    return (not load.guards and bool(n) and bool(k) and set(form.terms) <= {*batch, *n, *k}
            and spacing(form, n) == 1 and spacing(form, k) is not None)


def spacing(form: Form, vars: Sequence[Var]) -> Dim | None:
    """How far apart neighbours along some variables are, where they are one evenly spaced run; 0
    along none."""
    if not vars:
        return 0
    last = form.coefficient(vars[-1])
    even = all(form.coefficient(v) == product(tuple(w.extent for w in vars[i + 1:])) * last
               for i, v in enumerate(vars))
    return last if even else None
