"""A cover as text: one block per kernel, with names that do not depend on class numbers."""

from __future__ import annotations

from tegg.bits import value_of
from tegg.ir.classes import Cover, EClasses, ENode, KernelSpec


def show(cover: Cover, classes: EClasses, seconds: bool = True) -> str:
    """The plan as text that is the same for the same cover, whatever its classes are numbered."""
    names = _names(cover, classes)
    lines = []
    for i, spec in enumerate(cover.kernels):
        lines += _kernel(i, spec, classes, names, seconds)
    if seconds:
        gap = "unknown" if cover.gap is None else f"{cover.gap:.2%}"
        lines.append(f"total {cover.seconds * 1e6:.1f} us, gap {gap}")
    return "\n".join(lines) + "\n"


def _names(cover: Cover, classes: EClasses) -> dict[int, str]:
    """Inputs and outputs by their names, stored values t0, t1 ..., the rest by their kernel."""
    names: dict[int, str] = {}
    for c, nodes in classes.nodes.items():
        for n in nodes:
            if n.op.name == "Input":
                names[c] = classes.graph.inputs[n.attrs[0]].name
    for name, c in classes.outputs.items():
        names.setdefault(c, name)
    stored = 0
    for spec in cover.kernels:
        for c in spec.outs:
            if c not in names:
                names[c] = f"t{stored}"
                stored += 1
    return names


def _kernel(i: int, spec: KernelSpec, classes: EClasses, names: dict[int, str],
            seconds: bool) -> list[str]:
    local = dict(names)
    kind = "product" if spec.anchor is not None else "loops"
    when = ", ahead" if spec.ahead else ""
    price = f", {spec.seconds * 1e6:.1f} us" if seconds else ""

    def value(c: int, form: str) -> str:
        shape = ",".join(map(str, classes.shape[c]))
        return f"{local[c]}:{form or classes.dtype[c].name}[{shape}]"

    reads = ", ".join(value(c, spec.form_of_leaf(j)) for j, c in enumerate(spec.leaves))
    writes = ", ".join(value(c, spec.form_of_out(j)) for j, c in enumerate(spec.outs))
    lines = [f"k{i} ({kind}{when}{price}): {writes} <- {reads or 'nothing'}"]
    inner = 0
    for c, n in spec.body.items():
        if c not in spec.outs:
            if n.op.name == "Full":
                local[c] = f"{value_of(n.attrs[2], classes.dtype[c])}"
                continue
            local[c] = f"%{inner}"
            inner += 1
        lines.append(f"    {local[c]} = {_step(c, n, classes, local)}")
    return lines


def _step(c: int, n: ENode, classes: EClasses, names: dict[int, str]) -> str:
    args = [names.get(a, f"class {a}") for a in n.args]
    if n.op.name in ("Reshape", "Expand"):
        attrs = ["[" + ",".join(map(str, classes.shape[c])) + "]"]
    elif n.op.name == "Pad":
        attrs = [_tuple(n.attrs[0]), _tuple(n.attrs[1]),
                 f"{value_of(n.attrs[2], classes.dtype[c])}"]
    else:
        attrs = [_tuple(a) if isinstance(a, tuple) else
                 str(value_of(a, classes.dtype[c])) if kind == "bits" else
                 getattr(a, "name", None) or str(a)
                 for a, (_, kind) in zip(n.attrs, n.op.attrs)]
    return f"{n.op.name}({', '.join(args + attrs)})"


def _tuple(values: tuple) -> str:
    return "(" + ",".join(map(str, values)) + ")"
