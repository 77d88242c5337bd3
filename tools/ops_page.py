"""Write docs/ops.md: every public op with its formula, primops, dtypes, special values, example.

    python tools/ops_page.py
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any


import tegg
from tegg.dtype import DTYPES
from tegg.ops.examples import IMPOSSIBLE, example
from tegg.ops.public import KEYWORDS, PUBLIC, PublicOp, methods_of, names_of
from tegg.ops.reference import TOLD
from tegg.shape import show

sys.path.insert(0, str(Path(__file__).parent))
from ops_examples import SETUP
from ops_special import DATA, table

PAGE = Path(__file__).parent.parent / "docs" / "ops.md"
HEAD = """# Ops

Every op of `tegg`, written by `tools/ops_page.py` from the table of public ops.
`tegg.softmax(x, -1)` and `x.softmax(-1)` are the same; PyTorch's name comes first, NumPy's and
others beside it. `axis=`, `keepdims=`, `ddof=`, `input=` and `other=` are understood wherever
`dim=`, `keepdim=`, `correction=`, `x=` and `y=` are.

* *Primops*: what the example records. Inputs are left out; rules find the named ops again.
* *Dtypes*: of the first operand, and of the result where it is another one.
* *Symbolic sizes*: shapes with which the example records too, one symbol at a time.
* *Special values* are computed, in float32: of NumPy with the function of that name, of PyTorch
  VERSION, of tegg by the meanings of the primops. Where a zero was chosen among zeros its sign is
  left out. NaN, inf and -0.0 go through movement and indexing as they are.
* Halves (f16, bf16) are computed in float32 and rounded once. Float and integer tensors do not mix.
* Methods that are no functions: `x.T`, `x.mT`, `x.float()`, `x.half()`, `x.bool()`, `x.numel()`,
  `x.dim()`, `x.expand_as(y)`, `x.reshape_as(y)`, `x.where(c, y)`, `x.masked_fill(mask, value)`.
* Inside a function that is being compiled `x.print("label")`, `x.diff("saved.npy")` and
  `x.watch(callback)` show a value after each run, and give x.
* `x[...]` takes ints, slices of any step, `...`, `None`, symbolic dims and arrays or tensors of
  integers as NumPy; not bool masks, whose shape would depend on values (`tegg.where`).

Differences to know: `max(x, dim)` gives values alone (PyTorch gives indices too: `argmax`); `sort`
and `topk` give `(values, indices)`; `var` and `std` have `correction=1` as in PyTorch; `x % y` has
the sign of y, `fmod` that of x; an integer divided by 0 is 0; sums of integers are i64.

The examples below begin with:

```python
"""


@cache
def tensors(dtype: Any = None, symbolic: int = 0) -> dict[str, Any]:
    """The names of the examples; floats with another dtype where one is given, and every size
    ``symbolic`` as the dim n."""
    names: dict[str, Any] = {}
    exec(SETUP, names)  # noqa: S102 - our own text
    if dtype is not None or symbolic:
        graph = tegg.Graph()
        for name, a in names["arrays"].items():
            own = dtype if name in ("x", "y", "image", "ones") and dtype else tegg.dtype(a.dtype)
            names[name] = graph.tensor(_shape(name, a.shape, symbolic), own, name)
        names["g"] = graph
    return names


def _shape(name: str, shape: tuple[int, ...], symbolic: int) -> tuple:
    """A shape with the dim n for a size; for size 1 that is the batch of images."""
    return tuple(tegg.dim("n", min=2) if k == symbolic and (k > 1 or (name, i) == ("image", 0))
                 else k for i, k in enumerate(shape))


def run(name: str, dtype: Any = None, symbolic: int = 0) -> tuple[Any, dict[str, Any]]:
    """What the example of an op records, and its names."""
    names = tensors(dtype, symbolic)
    with names["g"].recording():
        return eval(example(name), names), names


def primops(name: str) -> str:
    """The ops that the example records, with how often."""
    out, names = run(name)
    several = out if isinstance(out, tuple) else (out,)
    found = Counter(n.op.name for n in names["g"].reachable([t.node for t in several])
                    if n.op.name != "Input")
    return ", ".join(f"{k} x{n}" if n > 1 else k for k, n in found.items()) or "none"


def symbolic(name: str) -> str:
    """Which sizes of the example's operands may be a symbol n, one at a time."""
    used = [k for k in compile(example(name), "", "eval").co_names if k in tensors()["arrays"]]
    found = []
    for size in sorted({n for k in used for n in tensors()[k].shape}):
        if not any(_shape(k, tensors()[k].shape, size) != tensors()[k].shape for k in used):
            continue
        try:
            _, names = run(name, None, size)
        except tegg.TeggError:
            continue
        found.append(" and ".join(f"{k} {show(names[k].shape)}" for k in dict.fromkeys(used)
                                  if names[k].shape != tensors()[k].shape))
    return ", or ".join(found) or "none in the example"


def dtypes(name: str) -> str:
    """Which dtypes the first operand may have, and what the result then is."""
    accepted: dict[str, str] = {}
    for d in DTYPES.values():
        try:
            out, _ = run(name, d)
        except tegg.TeggError:
            continue
        accepted[d.name] = (out[0] if isinstance(out, tuple) else out).dtype.name
    same = [k for k, v in accepted.items() if k == v]
    other: dict[str, list[str]] = {}
    for k, v in accepted.items():
        if k != v:
            other.setdefault(v, []).append(k)
    parts = [_few(same), *(f"{_few(ks)} -> {v}" for v, ks in other.items())]
    return "; ".join(p for p in parts if p)


def _few(names: list[str]) -> str:
    groups = {"floats": ["f32", "f64", "f16", "bf16"], "integers": ["u8", "i8", "i32", "i64"],
              "bool": ["bool"]}
    out = []
    for group, members in groups.items():
        found = [m for m in members if m in names]
        out += [group] if found == members else found
    return ", ".join(out)


def described(op: PublicOp) -> str:
    """The docstring without its examples."""
    text = inspect.getdoc(op.function) or ""
    kept = [p for p in text.split("\n\n") if not p.startswith((">>>", "    ", "Shapes: "))]
    return "\n\n".join(kept).replace("``", "`")


def entry(op: PublicOp) -> str:
    """One op."""
    signature = inspect.signature(op.function)
    shown = ", ".join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values())
    names = [n for n in dict.fromkeys((*names_of(op), *methods_of(op))) if n != op.name]
    prefix = "x." if op.only_method else ""
    lines = [f"### {prefix}{op.name}", "", f"`{prefix}{op.name}({shown})`"
             + ("" if op.method else " (no method)")
             + (f", also {', '.join(f'`{n}`' for n in names)}" if names else ""),
             "", described(op), ""]
    if op.name in IMPOSSIBLE:
        return "\n".join(lines)
    told = TOLD[op.name]
    own = [f"`{k}=` for `{v}=`" for k, v in op.keywords.items()
           if k != v and KEYWORDS.get(k) != v]
    lines += [f"* Keywords: {', '.join(own)}"] if own else []
    lines += [f"* Shapes: {told.shapes}", f"* Raises: {told.errors}",
              f"* Primops: {primops(op.name)}", f"* Dtypes: {dtypes(op.name)}"]
    if op.family != "create":
        lines.append(f"* Symbolic sizes: {symbolic(op.name)}")
    lines += table(op)
    out, made = run(op.name)
    shown = f"print(value({example(op.name)}))  # {made['value'](out)}"
    if op.family == "create":  # no operand says which graph is meant
        shown = f"with g.recording():\n    {shown}"
    return "\n".join([*lines, "", "```python", shown, "```", ""])


def page() -> str:
    """The whole page."""
    families = {m.__name__.rpartition(".")[2]: m for m in tegg.ops.FAMILIES}
    by = {k: [op for op in PUBLIC.values() if op.family == k] for k in families}
    title = {k: re.split(r"[:.]", (m.__doc__ or k).strip())[0] for k, m in families.items()}
    index = [f"| {title[k]} | " + ", ".join(f"[{op.name}](#{_anchor(op)})" for op in ops) + " |"
             for k, ops in by.items()]
    body = [f"## {title[k]}\n\n" + "\n".join(map(entry, ops)) for k, ops in by.items()]
    version = json.loads(DATA.read_text(encoding="utf-8"))["version"]
    head = f"{HEAD.replace('VERSION', version)}{SETUP}```\n"
    return "\n".join([head, "| family | ops |", "|---|---|", *index, "", *body])


def _anchor(op: PublicOp) -> str:
    return f"x{op.name}" if op.only_method else op.name


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
