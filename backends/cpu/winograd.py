"""Lowers fragments around a convolution by 3 x 3 taps, in transformed tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cpu import pieces
from tegg.backends.cpu.contraction import nothing, reads_of
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.winograd_forms import POINTS, RESULTS, TAPS, Tiles, group_of
from tegg.dim import Dim, hint, product
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Temporary, Work
from tegg.kernel.contraction_classify import Contraction, classify
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.index import Var
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.slots import slots_of
from tegg.kernel.value import reachable

_PAGE = 1024  # elements by which filters are asked for ahead
_APART = 48   # elements between planes of transformed tiles, so that they share no set of a cache


def lower_winograd(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                   language: C, tiles: Tiles) -> KernelCode:
    """The kernel that computes ``outputs``, whose convolution ``anchors`` are.

    What lies below the windows is evaluated while rows of the plane are read, what lies below the
    filters while they are transformed, in a stage of its own; what lies above while results are
    stored. Raises LoweringError where the fragment has another form; the message says why.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return nothing(name)
    found = classify(graph, slots.live, slots.anchors, language.native, slots.slots)
    return _Kernel(name, found, convolution(found), tiles, language,
                   kernel_symbols(graph, outputs), slots.free).code()


@dataclass(frozen=True, slots=True)
class Convolution:
    """The variables of a contraction of windows: places, and the taps beside them; the others that
    are summed (channels), and the other columns (images), outermost first."""

    down: tuple[Var, Var]
    across: tuple[Var, Var]
    channels: tuple[Var, ...]
    images: tuple[Var, ...]


def convolution(c: Contraction) -> Convolution:
    """The variables of a convolution. Raises LoweringError for another contraction."""
    if len(c.groups) != 1 or len(c.groups[0].terms) != 1:
        raise LoweringError("a convolution in tiles is one contraction, and its results are one "
                            "group; store it, and compute the others in kernels of their own")
    (group,) = c.groups
    columns = group.n
    forms = [f for v in reachable([group.terms[0].b]) for f in v.forms()]
    pairs = [(p, k) for p in columns for k in c.k
             if k.extent == TAPS and all(f.slides(p, k) for f in forms)]
    across = [pair for pair in pairs if columns and pair[0] is columns[-1]]
    down = [pair for pair in pairs if pair not in across]
    if len(across) != 1 or len(down) != 1 or across[0][1] is down[0][1]:
        raise LoweringError("the second operand is no array of windows of 3 x 3 elements with "
                            "stride 1, the places across innermost in the result; use another "
                            "template")
    taken = {*across[0], *down[0]}
    return Convolution(down[0], across[0], tuple(v for v in c.k if v not in taken),
                       tuple(v for v in columns if v not in taken))


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    contraction: Contraction
    convolution: Convolution
    tiles: Tiles
    language: C
    symbols: tuple[str, ...]
    temporary: int  # slot of the transformed filters

    def code(self) -> KernelCode:
        c = self.contraction
        (group,) = c.groups
        (term,) = group.terms
        column = Axis("n", group.n, spread(group.n))
        hooks = Hooks(self.name, c, self.language.dialect, Axis("z", c.batch, spread(c.batch)),
                      Axis("m", c.m, spread(c.m)), Axis("k", c.k, c.depth), (column,))
        params = hooks.params(self.symbols)
        hooks.row_values(params)
        if hooks.rows:
            raise LoweringError("a convolution in tiles computes no reductions beside its own; "
                                "store them, and read them in this kernel")
        hooks.operand_a(params, True, turned=False)
        hooks.operand_b(params, term, column, ("_n", "_n_left"))
        hooks.result(params, 0, group, column)
        source = "\n".join([*hooks.lines, self._text(hooks, params)])
        reads, sums = reads_of([term.b]), reads_of([term.a])
        beside = reads_of([v for w in group.writes for v in w.needs()], {term.sum.id})
        written = frozenset(w.slot for w in group.writes)
        stages = (Stage(f"{self.name}_filters", sums, frozenset({self.temporary})),
                  Stage(self.name, reads | beside | {self.temporary}, written))
        return KernelCode(self.name, source, stages, (Temporary(f32, self._filters()),),
                          self.symbols, self._work(), (f"{self.tiles}",))

    # ---- sizes
    @property
    def _channels(self) -> int:
        n = product(tuple(v.extent for v in self.convolution.channels))
        if not isinstance(n, int) or not isinstance(spread(self.contraction.m), int):
            raise LoweringError("a convolution in tiles has a known number of channels and "
                                "filters; use another template")
        return n

    def _filters(self) -> Dim:
        group, groups = self._groups
        return (spread(self.contraction.batch) * group * groups * POINTS * self._channels
                * self.tiles.rows)

    @property
    def _groups(self) -> tuple[int, int]:
        return group_of(hint(spread(self.contraction.m)), self.tiles.rows)

    # ---- text
    def _text(self, h: Hooks, params: str) -> str:
        t, c = self.tiles, self.convolution
        group, groups = self._groups
        width, channels = t.width, self._channels
        (columns,) = h.columns
        of_n, of_k = columns.named(), h.k.named()
        halves = {"low": 0, "high": width // 2}
        joins = {name: ", ".join(str(i // 2 + at + width * (i % 2)) for i in range(width))
                 for name, at in halves.items()}
        joins |= {name: ", ".join(str(2 * i + at) for i in range(width))
                  for name, at in (("even", 0), ("odd", 1))}
        joins["shifted"] = ", ".join(map(str, range(1, width)))
        planes = channels * t.columns + _APART
        sums = group * t.rows * t.columns + _APART
        outer = [(of_n[v], v.extent) for v in c.images]
        inner = [(of_k[v], v.extent) for v in c.channels]
        return template("winograd").substitute(
            joins, k=h.name, T="float", V="vf", W=str(width), BYTES=str(4 * width),
            LOAD="vf_load", STORE="vf_store", x=str(self.contraction.groups[0].terms[0].anchor),
            params=params, args=h.args(self.symbols), unpack=h.unpack(self.symbols),
            b_params=h.batch.params, b_args=h.batch.args, b_of=h.batch.of("batch"),
            m_of=h.m.of("row"), m_args=h.m.args, n_args=columns.args,
            k_args=h.k.args.rstrip(", "), n_down=of_n[c.down[0]], n_across=of_n[c.across[0]],
            tap_down=of_k[c.down[1]], tap_across=of_k[c.across[1]],
            outer_params=params_of(outer), outer_args=args_of(outer),
            outer_of=places_of(outer, f"at / {t.tall * t.segments}"),
            channel_params=params_of(inner), channel_args=args_of(inner),
            channel_of=places_of(inner, "c"), C=str(channels), M=dim(h.m.count),
            B=dim(h.batch.count), OUTER=dim(product(tuple(v.extent for v in c.images))),
            P=str(t.down), Q=str(t.across), MR=str(t.rows), GROUP=str(group),
            GROUPS=str(groups), SEG=str(t.segment), SEGS=str(t.segments), TALL=str(t.tall),
            MOST=str(t.most), PIECES=str(pieces.MOST), NS=str(t.columns), PS=str(t.padded),
            YS=str(RESULTS * t.columns), VS=str(planes), MS=str(sums),
            AHEAD=str(_PAGE), temporary=str(self.temporary), products=_products(h.name, t.vectors),
            choose=_choose(h.name, t, planes, sums))

    def _work(self) -> Work:
        c = self.contraction
        batch, m, k = (hint(v) for v in (spread(c.batch), spread(c.m), c.depth))
        n = hint(spread(c.groups[0].n))
        scope = frozenset(c.batch) | frozenset(c.m)
        above = max(flops(w.value, scope, frozenset({c.groups[0].terms[0].sum.id}))
                    for w in c.groups[0].writes)
        direct = 2 * batch * m * n * k
        return Work(int(direct / 4 + above * batch * m * n), int(direct / 8 / self.tiles.width),
                    4 * batch * (m * k + n * self._channels), 4 * batch * m * n)


def params_of(named: Sequence[tuple[str, Dim]]) -> str:
    return "".join(f"int64_t {name}, " for name, _ in named)


def args_of(named: Sequence[tuple[str, Dim]]) -> str:
    return "".join(f"{name}, " for name, _ in named)


def places_of(named: Sequence[tuple[str, Dim]], flat: str) -> str:
    """Declarations of variables at a flat position."""
    out, rest = [], f"({flat})"
    for name, extent in reversed(named[1:]):
        out.append(f"const int64_t {name} = {rest} % ({dim(extent)});")
        rest = f"({rest} / ({dim(extent)}))"
    return " ".join([*out, *(f"const int64_t {name} = {rest};" for name, _ in named[:1])])


def _products(name: str, most: int) -> str:
    return "\n".join(f"PRODUCT({name}_product_{v}, {v})" for v in range(1, most + 1))


def _choose(name: str, t: Tiles, planes: int, sums: int) -> str:
    """The product for as many vectors as the units at hand have."""
    args = f"(f, v + xi * {planes}, m + xi * {sums} + b * {t.rows * t.columns}); break;"
    cases = [f"            case {v}: {name}_product_{v}{args}" for v in range(1, t.vectors)]
    return "\n".join([*cases, f"            default: {name}_product_{t.vectors}{args}"])
