"""Lowers fragments around a convolution, its windows read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cpu import pieces
from tegg.backends.cpu.contraction import nothing, reads_of
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.direct_cut import CLOSE, cut
from tegg.backends.cpu.direct_held import held_words, words_of
from tegg.backends.cpu.direct_lines import Lines, lines_of, turn
from tegg.backends.cpu.direct_templates import Direct, Slide
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.winograd import args_of, params_of, places_of
from tegg.dim import Dim, hint, product
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Temporary, Work
from tegg.kernel.contraction_classify import Contraction, classify
from tegg.kernel.contraction_held import TILE
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.index import Form, Var
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.slots import slots_of
from tegg.kernel.value import reachable

_SUMMED = 320      # products (or pairs) summed at most before they are added to the sums so far
_NEAR = 4608       # elements of filters that stay in L1 beside the sums of some tiles
_STAYS = 1 << 16   # elements of filters that stay in L2 from call to call
_AHEAD = 512       # elements of filters between those in use and those asked for
_READERS = 4       # tiles at least that read them meanwhile
_MORE = 7          # the same of taps side by side, of which few channels are read at a time
_COMES = 4         # elements of filters that come while one of an image is put in place
_SHORT = 1.25      # times as long a row with room for one more vector is, from which it has none
_LINE = 16         # elements of a cache line
_UNROLLED = 7      # taps across at most that are written out


def lower_direct(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                 language: C, tile: Direct) -> KernelCode:
    """The kernel that computes ``outputs``, whose convolution ``anchors`` are.

    What lies below the windows is evaluated while rows of them are put in place, what lies below
    the filters while they are packed, in a stage of its own; what lies above while results are
    stored. Raises LoweringError where the fragment has another form; the message says why.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return nothing(name)
    found = classify(graph, slots.live, slots.anchors, language.native, slots.slots)
    found, tile = cut(found, tile)
    return _Kernel(name, found, walked(found, tile), tile, language,
                   kernel_symbols(graph, outputs), slots.free).code()


@dataclass(frozen=True, slots=True)
class Walk:
    """One axis of windows as a contraction has it: the variables of its places and taps, and how
    far apart both are in what is put in place. Without a place it is one row, without a tap there
    is one."""

    place: Var | None
    tap: Var | None
    stride: int = 1
    dilation: int = 1

    @property
    def taps(self) -> int:
        return 1 if self.tap is None else hint(self.tap.extent)


@dataclass(frozen=True, slots=True)
class Walks:
    """The variables of a contraction of windows. What is no walk stays as it is: other summed
    variables are channels, other columns images."""

    down: Walk
    across: Walk
    channels: tuple[Var, ...]
    images: tuple[Var, ...]


def walked(c: Contraction, tile: Direct) -> Walks:
    """The walks of a contraction. Raises LoweringError where there is none along its rows."""
    if len(c.groups) != 1 or len(c.groups[0].terms) != 1:
        raise LoweringError("a direct convolution is one contraction, and its results are one "
                            "group; store it, and compute the others in kernels of their own")
    (group,) = c.groups
    slide = tile.slides[-1]
    short = not tile.flat and tile.places > slide.places
    if not c.k or not group.n or group.n[-1].extent != slide.places or short:
        raise LoweringError(f"the innermost columns of a direct convolution are {slide.places} "
                            f"places of one row, and something is summed; use another template")
    forms = [f for v in reachable([group.terms[0].b]) for f in v.forms()]
    across = _walk(forms, slide, group.n[-1:], c.k)
    rest = tuple(v for v in c.k if v is not across.tap)
    outer = tile.slides[-2] if len(tile.slides) > 1 else Slide(1, 1)
    down = _walk(forms, outer, group.n[:-1], rest)
    return Walks(down, across, tuple(v for v in rest if v is not down.tap),
                 tuple(v for v in group.n[:-1] if v is not down.place))


def _walk(forms: Sequence[Form], s: Slide, places: Sequence[Var], taps: Sequence[Var]) -> Walk:
    """The place and the tap that indices hold together as a slide says; where there is no such
    tap, places alone."""
    for p in places:
        for k in taps:
            if hint(p.extent) == s.places and k.extent == s.taps > 1 and all(
                    f.slides(p, k, s.stride, s.dilation) for f in forms):
                return Walk(p, k, s.stride, s.dilation)
    alone = [p for p in places if hint(p.extent) == s.places]
    return Walk(alone[-1] if alone else None, None)


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    contraction: Contraction
    walks: Walks
    tile: Direct
    language: C
    symbols: tuple[str, ...]
    temporary: int  # slot of the packed filters

    def code(self) -> KernelCode:
        c, w = self.contraction, self.walks
        (group,) = c.groups
        (term,) = group.terms
        column = Axis("n", group.n, spread(group.n))
        taps = [v for v in (w.down.tap, w.across.tap) if v is not None]
        hooks = Hooks(self.name, c, self.language.dialect, Axis("z", c.batch, spread(c.batch)),
                      Axis("m", c.m, spread(c.m)), Axis("k", (*w.channels, *taps), c.depth),
                      (column,))
        params = hooks.params(self.symbols)
        hooks.row_values(params)
        if hooks.rows:
            raise LoweringError("a direct convolution computes no reductions beside its own; store "
                                "them, and read them in this kernel")
        hooks.operand_a(params, True, turned=False)
        lines = self._lines(hooks)
        lines.operand_b(hooks, params, term, column, w.channels)
        down = None if self.tile.flat else w.down.place
        asked = [] if down is None else hooks.below(group, column, down, self._rows)
        hooks.result(params, 0, group, column, asked)
        source = "\n".join([*hooks.lines, self._text(hooks, params, lines)])
        beside = reads_of([v for x in group.writes for v in x.needs()], {term.sum.id})
        stages = (Stage(f"{self.name}_filters", reads_of([term.a]), frozenset({self.temporary})),
                  Stage(self.name, reads_of([term.b]) | beside | {self.temporary},
                        frozenset(x.slot for x in group.writes)))
        held = self.tile.held.panel if self.tile.held else f32
        return KernelCode(self.name, source, stages, (Temporary(held, self._filters()),),
                          self.symbols, self._work(), (f"{self.tile}",))

    def _lines(self, h: Hooks) -> Lines:
        """How lines are put in place: along places, or along taps where places are apart."""
        across = self.walks.across
        kind = "_n" if across.stride == 1 else "_k" if across.dilation == 1 else "_apart"
        if self.tile.held is not None:
            return Lines(kind)  # lines of two channels at a time become one of words
        along = across.tap if kind == "_k" else across.place
        return lines_of(h, self.contraction.groups[0].terms[0], self.walks.channels, along, kind)

    # ---- sizes
    @property
    def _channels(self) -> int:
        n = product(tuple(v.extent for v in self.walks.channels))
        if not isinstance(n, int):
            raise LoweringError("a direct convolution has a known number of channels; use another "
                                "template")
        return n

    @property
    def _deep(self) -> int:
        """Elements that all channels have at one place."""
        return words_of(self.tile.held, self._channels)

    @property
    def _long(self) -> int:
        """Elements that the places of one row read."""
        a = self.walks.across
        return a.stride * (self.tile.slides[-1].places - 1) + a.dilation * (a.taps - 1) + 1

    def _filters(self) -> Dim:
        m, nr = spread(self.contraction.m), self.tile.columns
        wide = -(-m // nr) * nr if isinstance(m, int) else m + (nr - 1)
        return spread(self.contraction.batch) * wide * (
            self._deep * (self.tile.held.group if self.tile.held else 1)
            * self.walks.down.taps * self.walks.across.taps)

    def _wide(self) -> Sequence[int]:
        """How many vectors of filters, or tiles, a panel may have, the least first."""
        m, t = spread(self.contraction.m), self.tile
        if t.turned and not t.flat:
            return (t.vectors,)  # all of places
        if not isinstance(m, int):
            return range(1, t.columns // t.width + 1)
        return sorted({-(-min(t.columns, m - first) // t.width)
                       for first in range(0, m, t.columns)})

    def _band(self, line: int) -> int:
        """Rows of places whose lines stay close."""
        down = self.walks.down
        lines = CLOSE // (self._deep * line)
        return max(1, (lines - down.dilation * (down.taps - 1) - 1) // down.stride + 1)

    @property
    def _tiles(self) -> int:
        """Tiles of a row of places."""
        return -(-self.tile.slides[-1].places // self.tile.places)

    @property
    def _rows(self) -> int:
        """Rows of places at a time."""
        down, across = self.walks.down, self.walks.across
        dense = down.taps * across.taps > 1 and down.stride == across.stride == 1
        return -(-(_MORE if dense and not self._near else _READERS) // self._tiles)

    def _row(self, lines: Lines) -> int:
        """Elements of a row that is put in place, with what vectors have beyond it. Where none is
        read or written across its last line, a short row ends there: so caches hold more of them,
        beside filters that pass by."""
        width = self.language.width
        ends, beyond = (-(-n // _LINE) * _LINE for n in (self._long, self._long + width))
        plain = (not self.tile.turned and self.tile.held is None and not lines.together
                 and self.walks.across.stride == 1)
        return ends if plain and _SHORT * ends < beyond else beyond

    @property
    def _near(self) -> bool:
        """Whether all filters stay in L2: a block of them comes from there."""
        filters = self._filters()
        return isinstance(filters, int) and filters <= _STAYS

    # ---- text
    def _text(self, h: Hooks, params: str, lines: Lines) -> str:
        t, walks = self.tile, self.walks
        down, across = walks.down, walks.across
        (columns,) = h.columns
        names = {**columns.named(), **h.k.named()}
        taps, places = down.taps * across.taps, t.slides[-1].places
        tiles, at = self._tiles, self._rows
        deep = _SUMMED if self._near else min(_SUMMED, _NEAR // t.columns)
        most = max(1, deep // taps)
        block = -(-self._deep // -(-self._deep // most))  # all blocks alike
        coming = 0 if self._near else -(-block * taps * t.columns // _LINE)  # lines asked for ahead
        width = self.language.width
        row = self._row(lines)
        line = -(-self._long // across.stride) if t.flat else row
        outer = [(names[v], v.extent) for v in walks.images]
        inner = [(names[v], v.extent) for v in walks.channels]
        words = dict(
            k=h.name, T="float", V="vf", W=str(width), BYTES=str(4 * width), LOAD="vf_load",
            STORE="vf_store", x=str(self.contraction.groups[0].terms[0].anchor),
            params=params, args=h.args(self.symbols), unpack=h.unpack(self.symbols),
            b_params=h.batch.params, b_args=h.batch.args, b_of=h.batch.of("batch"),
            m_of=h.m.of("row"), m_args=h.m.args, n_args=columns.args,
            k_args=h.k.args.rstrip(", "), n_across=names[across.place] if across.place else "",
            n_down=names[down.place] if down.place else "down_",
            tap_down=names[down.tap] if down.tap else "tap_down_",
            tap_across=names[across.tap] if across.tap else "tap_",
            outer_params=params_of(outer), outer_args=args_of(outer),
            outer_of=places_of(outer, "outer"), channel_params=params_of(inner),
            channel_args=args_of(inner), channel_of=places_of(inner, "c"), C=str(self._deep),
            M=dim(h.m.count), B=dim(h.batch.count),
            OUTER=dim(product(tuple(v.extent for v in walks.images))),
            P=dim(down.place.extent) if down.place else "1", Q=str(places), R=str(t.places),
            NR=str(t.columns), TD=str(down.taps), TA=str(across.taps), TAPS=str(taps),
            SD=str(down.stride), DD=str(down.dilation), SA=str(across.stride),
            DA=str(across.dilation), DOWN=str(down.dilation * line), LS=str(line),
            LONG=str(self._long), ahead=self._ahead(),
            BLOCK=str(block), LINES=str(coming), TILES=str(tiles), AT=str(at),
            ASKED=str(-(-coming // (at * tiles * block * down.taps))),
            SUMS=str(t.places if t.flat else at * tiles * t.places), TILE=str(TILE),
            ROW_ROOM=str(row), BAND=str(self._band(line)), PIECES=str(pieces.MOST),
            COMES=str(_COMES), UNROLL=str(across.taps if across.taps <= _UNROLLED else 1),
            temporary=str(self.temporary), products=_products(h.name, self._wide()),
            choose=self._choose(h.name),
            transpose="" if t.turned and not lines.together else turn(h.name, width))
        (term,) = self.contraction.groups[0].terms
        words |= held_words(t.held, self._channels, words, (term.a, term.b))
        words |= lines.words(words, walks.channels, self._long, width)
        words["lines"] = template(f"direct_lines{self._steps}").substitute(words)
        kind = "places" if t.turned else "direct"
        flat = "_flat" if t.flat else ""
        parts = dict(product="direct_tiles" if t.flat else f"{kind}_product", store=f"{kind}_store",
                     stores=f"{kind}_stores", plane=f"direct_plane{flat}",
                     passes=f"direct_passes{flat}")
        for part, text in parts.items():  # passes are over stores
            words[part] = template(text).substitute(words)
        return template("direct").substitute(words)

    def _choose(self, name: str) -> str:
        """The product for as many vectors as the panel at hand has."""
        args = "f, in + at, plane, region, t" if self.tile.flat else (
            f"fc, from + x * {self.walks.across.stride}, plane, some, c0 > 0, sums, next, end")
        wide = self._wide()
        cases = [f"                case {v}: {name}_product_{v}({args}); break;" for v in wide[:-1]]
        return "\n".join([*cases, f"                default: {name}_product_{wide[-1]}({args});"
                                  f" break;"])

    def _ahead(self) -> str:
        """What asks for filters a little ahead of their use."""
        if self.language.registers.family == "few":
            return ""
        return (f"for (int j = 0; j < {self.tile.columns}; j += {_LINE}) "
                f"__builtin_prefetch(b + {_AHEAD} + j, 0, 3);")

    @property
    def _steps(self) -> str:
        """How the rows that a band reads are gone through: one after the other by places, by taps
        where places are apart, or by both where taps are apart too."""
        down = self.walks.down
        return "" if down.stride == 1 else "_taps" if down.dilation == 1 else "_apart"

    def _work(self) -> Work:
        c = self.contraction
        batch, m, k = (hint(v) for v in (spread(c.batch), spread(c.m), c.depth))
        n = hint(spread(c.groups[0].n))
        scope = frozenset(c.batch) | frozenset(c.m)
        above = max(flops(w.value, scope, frozenset({c.groups[0].terms[0].sum.id}))
                    for w in c.groups[0].writes)
        direct = 2 * batch * m * n * k
        return Work(int(direct + above * batch * m * n), int(direct / 2 / self.tile.columns),
                    4 * batch * (m * k + n * self._channels), 4 * batch * m * n)


def _products(name: str, wide: Sequence[int]) -> str:
    return "\n".join(f"PRODUCT({name}_product_{v}, {v})" for v in wide)
