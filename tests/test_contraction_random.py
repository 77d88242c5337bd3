"""Random contractions: any labels in any order, operands through views, prologues, epilogues."""

from __future__ import annotations

from hypothesis import given, note, settings, strategies as st

from profiles import examples
from contractions import FORMS, lowered
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.dim import dim
from tegg.ir.graph import Node

SIZES = st.one_of(st.integers(1, 7), st.sampled_from((0, 8, 15, 16, 17, 31, 33, 48, 49, 70)))
SYMBOLS = {c: dim(f"size_{c}", 0, 200) for c in "abmnk"}


@st.composite
def view(draw, g: Draw, shape: tuple, dtype: str) -> Node:
    """A node of the shape that is an input seen through movement."""
    kind = draw(st.sampled_from(("plain", "plain", "permute", "slice", "pad", "flip", "reshape")))
    rank = len(shape)
    if kind == "permute" and rank > 1:
        perm = draw(st.permutations(range(rank)))
        source = g.x(*(shape[perm.index(i)] for i in range(rank)), dtype=dtype)
        return g.permute(source, tuple(perm))
    if kind == "flip" and rank:
        return g.flip(g.x(*shape, dtype=dtype), draw(st.integers(0, rank - 1)))
    if kind == "slice" and rank:
        ranges, source = [], []
        for n in shape:
            low = draw(st.integers(0, 2))
            step = draw(st.integers(1, 2)) if isinstance(n, int) else 1
            ranges.append((low, low + n * step, step))
            source.append(low + n * step + draw(st.integers(0, 2)))
        return g.slice(g.x(*source, dtype=dtype), *ranges)
    if kind == "pad" and rank and all(isinstance(n, int) and n > 2 for n in shape):
        widths = [(draw(st.integers(0, 1)), draw(st.integers(0, 1))) for _ in shape]
        return g.padded(g.x(*(n - a - b for n, (a, b) in zip(shape, widths)), dtype=dtype), *widths)
    if kind == "reshape" and rank > 1:
        return g.reshape(g.x(shape[0] * shape[1], *shape[2:], dtype=dtype), shape)
    return g.x(*shape, dtype=dtype)


@st.composite
def fragment(draw, g: Draw, dtype: str, symbolic: frozenset[str]) -> tuple[list[Node], Node]:
    """Outputs over one contraction."""
    groups = {r: "".join(c for c in draw(st.sampled_from(options))) for r, options in (
        ("b", ("", "a", "ab")), ("m", ("m", "mp", "")), ("n", ("n", "nq", "")),
        ("k", ("k", "kl", "")))}
    size = {c: SYMBOLS[c] if c in symbolic else draw(SIZES) for c in "".join(groups.values())}
    size.update({c: min(n, 5) for c, n in size.items() if c in "bplq" and isinstance(n, int)})
    orders = [draw(st.permutations(groups["b"] + groups[x] + groups[y]))
              for x, y in (("m", "k"), ("n", "k"), ("m", "n"))]
    shapes = [tuple(size[c] for c in order) for order in orders]
    x, y = (draw(view(g, shape, dtype)) for shape in shapes[:2])
    if dtype in ("f32", "f64"):
        curved = [lambda v: v, lambda v: g.add(g.mul(v, v), 0.5)]
        alone = orders[0] and orders[0][-1] in groups["k"] and len(groups["k"]) == 1
        x = draw(st.sampled_from(curved + [_row_scaled(g)] * bool(alone)))(x)
        y = draw(st.sampled_from(curved))(y)
    spec = ";".join(",".join(order) or "-" for order in orders)
    c = g.op("Contract", x, y, spec, shapes[2])
    outputs = [draw(epilogue(g, c))]
    if draw(st.booleans()) and outputs[0].op.name != "Slice":
        outputs.append(c)
    return outputs, c


def _row_scaled(g: Draw):
    """Divided by the sum of squares of its last axis: a row value where that axis is summed."""
    def scale(x: Node) -> Node:
        if not x.shape:
            return x
        axis = len(x.shape) - 1
        total = g.op("SumReduce", g.mul(x, x), axis)
        return g.mul(x, g.expand(g.op("Recip", g.add(total, 1.0)), x.shape))

    return scale


@st.composite
def epilogue(draw, g: Draw, c: Node) -> Node:
    """Something over the elements of a contraction."""
    kind = draw(st.sampled_from(("plain", "scaled", "added", "permuted", "sliced", "cast")))
    rank = len(c.shape)
    if kind == "scaled":
        return g.mul(c, 2)
    if kind == "added":
        return g.add(c, g.x(*c.shape, dtype=c.dtype.name))
    if kind == "permuted" and rank > 1:
        return g.permute(c, tuple(draw(st.permutations(range(rank)))))
    if kind == "sliced" and rank and all(isinstance(n, int) and n > 2 for n in c.shape):
        return g.slice(g.mul(c, 3), *((1, n, 1) for n in c.shape))
    if kind == "cast" and c.dtype.is_float:
        return g.cast(c, "f16")
    return c


@settings(max_examples=examples(40))
@given(st.data())
def test_constant_sizes(data) -> None:
    g = Draw()
    dtype = data.draw(st.sampled_from(("f32", "f32", "f32", "f64", "f16", "bf16", "i32", "u8")))
    outputs, anchor = data.draw(fragment(g, dtype, frozenset()))
    _check(data, g, outputs, anchor, ({},))


@settings(max_examples=examples(20))
@given(st.data())
def test_symbolic_sizes(data) -> None:
    g = Draw()
    symbolic = frozenset(data.draw(st.sets(st.sampled_from("abmnk"), min_size=1)))
    outputs, anchor = data.draw(fragment(g, "f32", symbolic))
    sizes = [{f"size_{c}": n for c, n in zip("abmnk", row)} for row in (
        (1, 2, 5, 33, 17), (2, 1, 40, 16, 50), (0, 1, 3, 3, 3), (3, 2, 0, 5, 4), (2, 2, 9, 70, 0),
        (1, 1, 1, 1, 1))]
    _check(data, g, outputs, anchor, sizes)


def _check(data, g: Draw, outputs: list[Node], anchor: Node, sizes) -> None:
    note("\n".join(f"{n!r} {[a.id for a in n.args]} {n.attrs}" for n in g.reachable(outputs)))
    width = data.draw(st.sampled_from((16, 16, 8, 4)))
    form = data.draw(st.sampled_from((None, None, *FORMS)))
    code = lowered(g, outputs, [anchor], width, form and FORMS[form])
    library = build(code, width)
    for s in sizes:
        check(g, outputs, s, width=width, threads=(1, 2, 3), code=code, library=library)
