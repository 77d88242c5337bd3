"""Fragments around contractions: each function records one, and gives its outputs and anchors."""

from __future__ import annotations

from tegg.testing.draw import Draw
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.templates import Forms
from tegg.dim import dim
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_held import HELD
from tegg.kernel.contraction_shape import BESIDE, Tile
from tegg.kernel.registers import Registers

Fragment = tuple[list[Node], list[Node]]

NARROW = {"bf16": Tile("packed", 5, 2, held=HELD["bf16"]),
          "f16": Tile("packed", 6, 3, held=HELD["f16"]),
          "pairs": Tile("packed", 5, 2, held=HELD["pairs"]),
          "tiles": Tile("packed", 32, 2, held=HELD["tiles"]),
          "low tiles": Tile("packed", 16, 1, held=HELD["tiles"])}
BYTES = {"bytes": Tile("packed", 5, 2, held=HELD["bytes"]),
         "byte tiles": Tile("packed", 32, 2, held=HELD["byte tiles"]),
         "low byte tiles": Tile("packed", 16, 2, held=HELD["byte tiles"])}
FORMS = {"packed": Tile("packed", 5, 2), "wide": Tile("packed", 6, 4),
         "passing": Tile("packed", 5, 2, passing=True), "rows": Tile("rows"),
         "dots": Tile("dots", 2), "rows followed": Tile("rows", asked=0),
         "dots followed": Tile("dots", asked=0), "packed parts": Tile("packed", 4, 2, 3),
         "rows beside": Tile("rows", asked=BESIDE), "dots beside": Tile("dots", 2, asked=BESIDE),
         "rows parts": Tile("rows", parts=2), "dots parts": Tile("dots", 3, parts=4)}


def usual(anchor: Node, width: int) -> Tile:
    """A tile that suits an anchor: the first that the rules of the CPU would try."""
    if anchor.op.name != "Contract":
        return Tile("packed", 4, 2)
    x, y, spec = *anchor.args, anchor.attrs[0]
    forms = Forms(Registers(width))
    if found := forms.completions("cpu-dots", x, y, spec):
        return Tile("dots", found[0][0])
    if forms.completions("cpu-rows", x, y, spec):
        return Tile("rows")
    return Tile("packed", *forms.completions("cpu-tile", x, y, spec)[0])


def lowered(g: Draw, outputs: list[Node], anchors: list[Node], width: int = 16,
            tile: Tile | None = None, **more) -> KernelCode:
    """The kernel of a fragment, in the form that suits its first anchor, or in another."""
    return lower_contraction(g, outputs, anchors, "k", C(width), tile or usual(anchors[0], width),
                             **more)


M, B, S = dim("m", 0, 1 << 20), dim("b", 0, 64, hint=4), dim("s", 0, 4096)


def product(g: Draw, x: Node, y: Node, spec: str, *shape) -> Node:
    return g.op("Contract", x, y, spec, shape)


def matmul(g: Draw, x: Node, y: Node) -> Node:
    return product(g, x, y, "a,k;k,n;a,n", x.shape[0], y.shape[1])


def by_itself(g: Draw, x: Node, along: bool, turned: bool = False) -> Node:
    """A batch of matrices, each by itself turned. along: its rows are summed, not its columns."""
    batch, m = x.shape[0], x.shape[2 if along else 1]
    one, two = ("b,k,a", "b,k,c") if along else ("b,a,k", "b,c,k")
    return product(g, x, x, f"{one};{two};{'b,c,a' if turned else 'b,a,c'}", batch, m, m)


# ---- where operands come from
def plain(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 300), g.x(300, 70))
    return [c], [c]


def transposed_b(g: Draw) -> Fragment:
    c = product(g, g.x(50, 300), g.x(70, 300), "a,k;n,k;a,n", 50, 70)
    return [c], [c]


def transposed_a(g: Draw) -> Fragment:
    c = product(g, g.x(300, 50), g.x(300, 70), "k,a;k,n;a,n", 50, 70)
    return [c], [c]


def transposed_result(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 300), g.x(300, 70))
    return [g.mul(g.permute(c, (1, 0)), 2.0)], [c]


def batched(g: Draw) -> Fragment:
    c = product(g, g.x(3, 50, 40), g.x(3, 70, 40), "b,a,k;b,n,k;b,a,n", 3, 50, 70)
    return [c], [c]


def heads(g: Draw) -> Fragment:
    q = g.permute(g.reshape(g.x(32, 96), (32, 4, 24)), (1, 0, 2))
    k = g.permute(g.reshape(g.x(32, 96), (32, 4, 24)), (1, 2, 0))
    c = product(g, q, k, "h,a,k;h,k,n;h,a,n", 4, 32, 32)
    return [c], [c]


def merged_heads(g: Draw) -> Fragment:
    v = g.permute(g.reshape(g.x(32, 96), (32, 4, 24)), (1, 0, 2))
    c = product(g, g.x(4, 32, 32), v, "h,a,k;h,k,n;h,a,n", 4, 32, 24)
    return [g.reshape(g.permute(c, (1, 0, 2)), (32, 96))], [c]


def sliced(g: Draw) -> Fragment:
    a = g.slice(g.x(60, 300), (5, 45, 1), (1, 300, 2))
    b = g.flip(g.slice(g.x(300, 90), (0, 150, 1), (3, 73, 1)), 0)
    c = matmul(g, a, b)
    return [g.add(c, g.expand(g.x(70), (40, 70)))], [c]


def padded(g: Draw) -> Fragment:
    c = matmul(g, g.padded(g.x(50, 30), (3, 1), (2, 5)), g.padded(g.x(30, 60), (2, 5), (4, 0)))
    return [c], [c]


def padded_with_one(g: Draw) -> Fragment:
    c = matmul(g, g.padded(g.x(20, 30), (0, 0), (2, 5), fill=1.0), g.x(37, 40))
    return [c], [c]


def gathered(g: Draw) -> Fragment:
    c = matmul(g, g.op("Gather", g.x(40, 64), g.x(50, dtype="i32"), 0), g.x(64, 70))
    return [c], [c]


def gathered_columns(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 64), g.op("Gather", g.x(64, 40), g.x(70, dtype="i64"), 1))
    return [c], [c]


def convolution(stride: int, *shape: int):
    """3 x 3 windows over (n, channels, h, w), padded by 1; ``shape`` ends with the filters."""
    *image, filters = shape

    def record(g: Draw) -> Fragment:
        n, channels, _, _ = image
        x = g.padded(g.x(*image), (0, 0), (0, 0), (1, 1), (1, 1))
        q = g.window(g.window(x, 2, 3, stride), 4, 3, stride)
        c = product(g, q, g.x(filters, channels, 3, 3), "b,c,h,k,w,l;o,c,k,l;b,o,h,w",
                    n, filters, q.shape[2], q.shape[4])
        return [c], [c]

    return record


def windows(g: Draw, channels: int, size: tuple[int, int], taps: tuple[int, int], filters: int,
            dtype: str = "f32"):
    """Rows along memory under some taps, times filters that lie in pieces, the results of which lie
    side by side: as of a transposed convolution."""
    x = g.x(channels, *size, dtype=dtype)
    for axis, n in ((1, taps[0]), (3, taps[1])):
        x = g.window(x, axis, n, 1)
    w = g.x(channels, filters, *taps, 2, dtype=dtype)
    return product(g, x, w, "c,p,h,q,w;c,s,h,w,t;p,q,s,t", x.shape[1], x.shape[3], filters, 2)


def windows_beside_pieces(g: Draw) -> Fragment:
    c = windows(g, 5, (6, 33), (2, 3), 40)
    return [c], [c]


# ---- prologues
def scaled_exponents(g: Draw) -> Fragment:
    x = g.mul(g.exp(g.x(50, 60)), g.expand(g.x(60), (50, 60)))
    c = matmul(g, x, g.x(60, 70))
    return [g.add(c, g.x(50, 70))], [c]


def rms_norm(g: Draw) -> Fragment:
    x = g.op("RmsNorm", g.x(50, 64), g.expand(g.x(64), (50, 64)), 1, 0)
    c = matmul(g, x, g.x(64, 70))
    return [c], [c]


def layer_norm_transposed(g: Draw) -> Fragment:
    gain = g.expand(g.x(64), (50, 64))
    c = matmul(g, g.op("LayerNorm", g.x(50, 64), gain, gain, 1, 0), g.x(64, 70))
    return [g.permute(c, (1, 0))], [c]


def softmax_rows(g: Draw) -> Fragment:
    c = matmul(g, g.softmax(g.x(50, 64), 1), g.x(64, 70))
    return [c], [c]


def global_scale(g: Draw) -> Fragment:
    x = g.x(20, 30)
    c = matmul(g, g.div(x, g.expand(g.total(x, 0, 1, keep=True), (20, 30))), g.x(30, 40))
    return [c], [c]


def norms_of_both(g: Draw) -> Fragment:
    x, y = g.x(20, 30), g.x(40, 30)
    x = g.mul(x, g.expand(g.top(x, 1, keep=True), (20, 30)))
    y = g.mul(y, g.expand(g.top(y, 1, keep=True), (40, 30)))
    c = product(g, x, y, "a,k;n,k;a,n", 20, 40)
    return [c], [c]


def quantised(g: Draw) -> Fragment:
    w = g.mul(g.cast(g.x(64, 70, dtype="i8"), "f32"), g.expand(g.x(70), (64, 70)))
    c = matmul(g, g.x(20, 64), w)
    return [c], [c]


# ---- epilogues
def bias_gelu(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 600), g.x(600, 70))
    return [g.idiom("Gelu", g.add(c, g.expand(g.x(70), (50, 70))))], [c]


def to_int(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 64, dtype="f64"), g.x(64, 70, dtype="f64"))
    return [g.cast(g.mul(c, 100.0), "i32")], [c]


def masked(g: Draw) -> Fragment:
    c = product(g, g.x(4, 20, 16), g.x(4, 20, 16), "h,a,k;h,n,k;h,a,n", 4, 20, 20)
    row, col = g.reshape(g.iota(20), (20, 1)), g.reshape(g.iota(20), (1, 20))
    seen = g.less(g.expand(row, (20, 20)), g.expand(col, (20, 20)))
    return [g.select(g.expand(seen, (4, 20, 20)), g.full(-1e9, "f32"), c)], [c]


def row_sum_in_result(g: Draw) -> Fragment:
    x = g.x(20, 30)
    c = matmul(g, x, g.x(30, 40))
    return [g.add(c, g.expand(g.total(x, 1, keep=True), (20, 40)))], [c]


def stored_thrice(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 300), g.x(300, 96))
    return [g.idiom("Relu", c), c, g.permute(g.reshape(c, (50, 4, 24)), (1, 0, 2))], [c]


def part_of_result(g: Draw) -> Fragment:
    c = matmul(g, g.x(50, 300), g.x(300, 70))
    return [g.slice(c, (3, 40, 1), (5, 61, 2))], [c]


def padded_result(g: Draw) -> Fragment:
    c = matmul(g, g.x(20, 30), g.x(30, 40))
    return [g.padded(c, (1, 2), (3, 4), fill=7.0)], [c]


def repeated_result(g: Draw) -> Fragment:
    c = matmul(g, g.x(20, 30), g.x(30, 10))
    return [g.add(g.expand(g.reshape(c, (20, 1, 10)), (20, 3, 10)), g.x(20, 3, 10))], [c]


# ---- several contractions
def projections(g: Draw) -> Fragment:
    x = g.x(50, 64)
    q, k, v = (matmul(g, x, g.x(64, n)) for n in (96, 40, 96))
    return [g.permute(g.reshape(q, (50, 4, 24)), (1, 0, 2)), k, g.permute(v, (1, 0))], [q, k, v]


def gated(g: Draw) -> Fragment:
    x = g.x(50, 64)
    a, b = (matmul(g, x, g.x(64, 100)) for _ in range(2))
    return [g.mul(g.idiom("Silu", a), b)], [a, b]


def gated_and_deep(g: Draw) -> Fragment:
    x = g.x(20, 900)
    a, b, c = (matmul(g, x, g.x(900, 50)) for _ in range(3))
    return [g.mul(a, b), c], [a, b, c]


# ---- sizes
def deep(g: Draw) -> Fragment:
    c = matmul(g, g.x(37, 1100), g.x(1100, 130))
    return [c], [c]


def vector_matrix(g: Draw) -> Fragment:
    c = product(g, g.x(300), g.x(300, 70), "k;k,n;n", 70)
    return [c], [c]


def vector_matrix_transposed(g: Draw) -> Fragment:
    c = product(g, g.x(300), g.x(70, 300), "k;n,k;n", 70)
    return [g.add(c, g.x(70))], [c]


def matrix_vector(g: Draw) -> Fragment:
    c = product(g, g.x(70, 300), g.x(300), "a,k;k;a", 70)
    return [c], [c]


def few_rows(g: Draw) -> Fragment:
    c = matmul(g, g.exp(g.x(3, 1100)), g.x(1100, 130))
    return [g.idiom("Relu", c)], [c]


def few_rows_transposed(g: Draw) -> Fragment:
    c = product(g, g.x(3, 300), g.exp(g.x(67, 300)), "a,k;n,k;a,n", 3, 67)
    return [c], [c]


def dot(g: Draw) -> Fragment:
    c = product(g, g.x(300), g.x(300), "k;k;-")
    return [c], [c]


def outer(g: Draw) -> Fragment:
    c = product(g, g.x(30, 1), g.x(1, 20), "a,;,n;a,n", 30, 20)
    return [c], [c]


def no_depth(g: Draw) -> Fragment:
    c = matmul(g, g.x(30, 0), g.x(0, 20))
    return [g.add(c, 1.0)], [c]


def no_rows(g: Draw) -> Fragment:
    c = matmul(g, g.x(0, 30), g.x(30, 20))
    return [c], [c]


def sum_of_products(g: Draw) -> Fragment:
    x = g.expand(g.reshape(g.x(37, 50), (37, 50, 1)), (37, 50, 30))
    c = g.op("SumReduce", g.mul(x, g.expand(g.reshape(g.x(50, 30), (1, 50, 30)), (37, 50, 30))), 1)
    return [g.reshape(c, (37, 30))], [c]


# ---- dtypes
def typed(dtype: str, transposed: bool = False):
    def record(g: Draw) -> Fragment:
        if transposed:
            c = product(g, g.x(100, 30, dtype=dtype), g.x(40, 100, dtype=dtype),
                        "k,a;n,k;a,n", 30, 40)
        else:
            c = matmul(g, g.x(30, 100, dtype=dtype), g.x(100, 40, dtype=dtype))
        return [c], [c]

    return record


def half_weights(g: Draw) -> Fragment:
    w = g.cast(g.x(70, 300, dtype="bf16"), "f32")
    c = product(g, g.x(50, 300), w, "a,k;n,k;a,n", 50, 70)
    return [c], [c]


# ---- symbolic sizes
def symbolic_rows(g: Draw) -> Fragment:
    c = matmul(g, g.x(M, 300), g.x(300, 100))
    return [g.op("Tanh", g.add(c, g.expand(g.x(100), (M, 100))))], [c]


def symbolic_reshaped(g: Draw) -> Fragment:
    c = product(g, g.reshape(g.x(B, S, 64), (B * S, 64)), g.x(64, 96), "a,k;k,n;a,n", B * S, 96)
    return [c], [c]


def symbolic_heads(g: Draw) -> Fragment:
    c = product(g, g.x(B, S, 32), g.x(32, 96), "a,b,k;k,n;a,b,n", B, S, 96)
    return [g.permute(g.reshape(c, (B, S, 4, 24)), (0, 2, 1, 3)), c], [c]


def symbolic_scores(g: Draw) -> Fragment:
    q, k = (g.permute(g.reshape(g.x(B, S, 48), (B, S, 2, 24)), (0, 2, 1, 3)) for _ in range(2))
    c = product(g, q, k, "b,h,a,k;b,h,n,k;b,h,a,n", B, 2, S, S)
    return [g.mul(c, 0.2)], [c]


def symbolic_values(g: Draw) -> Fragment:
    v = g.permute(g.reshape(g.x(B, S, 48), (B, S, 2, 24)), (0, 2, 1, 3))
    c = product(g, g.x(B, 2, S, S), v, "b,h,a,k;b,h,k,n;b,h,a,n", B, 2, S, 24)
    return [g.reshape(g.permute(c, (0, 2, 1, 3)), (B, S, 48))], [c]


def symbolic_depth(g: Draw) -> Fragment:
    c = product(g, g.x(S, 20), g.x(S, 30), "k,a;k,n;a,n", 20, 30)
    return [c], [c]


def symbolic_outer(g: Draw) -> Fragment:
    """Rows that are merged, and nothing that is summed."""
    c = product(g, g.x(M, 2), g.x(1), "m,p;n;m,p,n", M, 2, 1)
    return [g.mul(c, 2.0), c], [c]


CASES = {f.__name__: f for f in (
    plain, transposed_b, transposed_a, transposed_result, batched, heads, merged_heads, sliced,
    padded, padded_with_one, gathered, gathered_columns, scaled_exponents, rms_norm,
    layer_norm_transposed, softmax_rows, global_scale, norms_of_both, quantised, bias_gelu, to_int,
    masked, row_sum_in_result, stored_thrice, part_of_result, padded_result, repeated_result,
    projections, gated, gated_and_deep, deep, vector_matrix, vector_matrix_transposed,
    matrix_vector, few_rows, few_rows_transposed, dot, outer, no_depth, no_rows, sum_of_products,
    half_weights, windows_beside_pieces)}
CASES.update({"convolution": convolution(1, 1, 5, 12, 20, 6),
              "strided_convolution": convolution(2, 2, 5, 13, 21, 19),
              "large_convolution": convolution(1, 1, 16, 61, 57, 33),
              "large_strided_convolution": convolution(2, 2, 32, 51, 83, 19)})
CASES.update({f"typed_{d}": typed(d) for d in ("f64", "f16", "bf16", "u8", "i8", "i32", "i64")})
CASES["typed_f64_transposed"] = typed("f64", True)
SYMBOLIC = {f.__name__: f for f in (
    symbolic_rows, symbolic_reshaped, symbolic_heads, symbolic_scores, symbolic_values,
    symbolic_depth, symbolic_outer)}
