"""Attention in floats: scores of a block of queries and keys, and sums, in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tegg.backends.cexpr import dim
from tegg.backends.simt.attention_block import REDUCED, AttentionBlock
from tegg.backends.simt.evaluate import NEIGHBOURS, follows, together
from tegg.dim import exact_div
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.simt import THREADS, WARP
from tegg.kernel.value import Val

_SLICE = 64  # terms of a score that are in shared memory at once
_TERMS = 8   # that a thread may have in registers at once

Side = tuple[tuple[Var, ...], str, int, str]  # variables, the first place, how many, their limit


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile of an operand: its lines, and what lies along them. ``inner`` is what neighbours of
    memory are of."""

    value: Val
    lines: Side
    along: Side

    @property
    def follows(self) -> bool:
        """Whether memory follows the lines, rather than crossing them."""
        return follows(self.value, *((vars or (None,))[-1] for vars in (self.along[0],
                                                                       self.lines[0])))

    @property
    def inner(self) -> Side:
        return self.along if self.follows else self.lines

    @property
    def outer(self) -> Side:
        return self.lines if self.follows else self.along

    @property
    def size(self) -> int:
        return self.lines[2] * self.along[2]

    @property
    def together(self) -> int:
        """Elements that a thread takes at once, from a multiple of as many."""
        vars, first, count, _ = self.inner
        some = together([self.value], vars)
        while count % some or (first.isdigit() and int(first) % some):
            some //= 2
        return some

    @property
    def ragged(self) -> bool:
        """Whether some of those may be beyond the limit."""
        vars, _, _, limit = self.inner
        return bool(limit) and exact_div(spread(vars), self.together) is None

    def place(self) -> str:
        """A line ``r`` and a place ``c`` of it, by the number ``e`` of a thread. As many threads
        side by side as have a line of banks go along memory, the next ones along the next line: in
        shared memory, whose lines begin a bank apart, each then meets another bank."""
        per = gcd(self.inner[2] // self.together, WARP // self.together)
        many, some = self.outer[2], self.together
        a, b = ("c", "r") if self.follows else ("r", "c")
        return (f"const int {a} = (e % {per} + e / {per * many} * {per}) * {some}, "
                f"{b} = e / {per} % {many};")

    def inside(self, some: int, r: str = "r", c: str = "c") -> str:
        """What must be so for ``some`` neighbours to be there."""
        tests = []
        for (_, first, _, limit), at, side in ((self.lines, r, self.lines),
                                               (self.along, c, self.along)):
            more = f" + {some - 1}" if some > 1 and side is self.inner else ""
            tests += [f"{first} + {at}{more} < {limit}"] * bool(limit)
        return " && ".join(tests)


@dataclass(slots=True)
class AttentionTiles(AttentionBlock):
    """A row of threads, half a warp or a warp, has the scores of a query: each thread those of
    every sixteenth key (or 32nd), and the results of as many columns, some of them neighbours.

    Queries stay in shared memory. Keys pass through it a slice of their terms at a time, and
    values, in the same place, a slice of the keys at a time. Where products read a line they read
    16 bytes of it at once, and so lines are filled up with zeros.
    """

    @property
    def step(self) -> int:
        """Elements that are read at once, of which lines are multiples."""
        return 2 if self.letter == "d" else 4

    @property
    def pad(self) -> int:
        """Elements more in a line of an array, so that threads side by side, each with a line of
        its own, meet every bank."""
        return self.step

    @property
    def lanes(self) -> int:
        """Threads that share a query."""
        return WARP // 2 if self.blocks.rows % (2 * THREADS // WARP) == 0 else WARP

    @property
    def lines(self) -> int:
        """Queries that all threads have at once."""
        return THREADS // self.lanes

    @property
    def mine(self) -> tuple[int, int, int]:
        """Rows, keys and columns of one thread."""
        return (self.blocks.rows // self.lines, self.blocks.keys // self.lanes,
                -(-self.columns // self.lanes))

    @property
    def halves(self) -> int:
        return self.blocks.rows // self.lines

    @property
    def slices(self) -> tuple[int, int]:
        """How often a part of the terms comes to shared memory, and how many terms it has."""
        count = -(-self.depth // _SLICE)
        return count, self._whole(-(-self.depth // count))

    @property
    def terms(self) -> int:
        """Terms of a query in shared memory."""
        count, width = self.slices
        return count * width

    @property
    def beside(self) -> int:
        """Neighbouring columns that a thread has."""
        n = self.mine[2]
        return max(w for w in (1, 2, self.step) if n % w == 0) if n * self.lanes == self.columns \
            else 1

    def _column(self, j: str) -> str:
        """The column that is number ``j`` of a thread."""
        some = self.beside
        if some == 1:
            return f"column + {self.lanes} * {j}"
        return f"{j} / {some} * {self.lanes * some} + column * {some} + {j} % {some}"

    @property
    def across(self) -> int:
        """Columns of values in shared memory."""
        return self._whole(self.columns)

    def _whole(self, n: int) -> int:
        return -(-n // self.step) * self.step

    @property
    def values(self) -> int:
        """Keys whose values are in shared memory at once: all of a block, or a part of them."""
        keys = self.blocks.keys
        while (keys > self.step and keys * (self.across + self.pad)
               > self.blocks.keys * (_SLICE + self.pad)):
            keys //= 2
        return keys

    @property
    def sizes(self) -> dict[str, int]:
        """Elements of the arrays in shared memory."""
        rows, keys, pad = self.blocks.rows, self.blocks.keys, self.pad
        return {"queries": rows * (self.terms + pad),
                "room": max(keys * (self.slices[1] + pad), self.values * (self.across + pad)),
                "weights": rows * (keys + pad)}

    @property
    def shared(self) -> int:
        return sum(self.sizes.values()) * (8 if self.letter == "d" else 4)

    @property
    def asked(self) -> int:
        language = self.at.language
        return language.set_aside(self.shared) if self.shared + REDUCED > language.room else 0

    @property
    def room(self) -> int:
        return self.at.language.most

    @property
    def at_once(self) -> int:
        """Where nothing is said NVIDIA's compiler spills a little, to have room for five."""
        largest = max(self.depth, self.columns)
        if largest > 128 or self.letter == "d":
            return 1
        return 2 if largest > 64 or self.blocks.rows != 32 else 3

    def row(self, i: str) -> str:
        return f"row + {self.lines} * {i}"

    def arrays(self) -> list[str]:
        """Declarations of what a block shares."""
        if self.asked:
            return self.at.language.kept({name: (self.type, size)
                                          for name, size in self.sizes.items()})
        return [f"{self.at.language.shared} {self.type} "
                f"{', '.join(f'{name}[{size}]' for name, size in self.sizes.items())};"]

    def start(self) -> None:
        p, (i, _, n) = self.at.p, self.mine
        p.line(f"const int row = thread_id() / {self.lanes}, column = thread_id() % {self.lanes};")
        p.line(f"{self.type} sums[{i}][{n}] = {{}};")

    def queries(self) -> None:
        self.fill_queries("queries", 0, self.terms)

    def fill_queries(self, array: str, first: int, width: int) -> None:
        """Some terms of all queries of the block."""
        a = self.a
        self._fill(array, a.first.a, (a.first.m, "m_from", self.blocks.rows,
                                      dim(spread(a.second.m))),
                   (a.first.k, str(first), width, self.depth if first + width > self.depth else 0))

    def fill_keys(self, first: str, width: int, exact: bool) -> None:
        """Some terms of all keys of the block. exact: no term is beyond the last."""
        a = self.a
        self._fill("room", a.first.groups[0].terms[0].b,
                   (a.keys, "key_from", self.blocks.keys, dim(a.second.depth)),
                   (a.first.k, first, width, 0 if exact else self.depth))

    def fill_values(self) -> None:
        """The values of keys from ``key_from + first`` on."""
        a, second = self.a, self.a.second.groups[0]
        self._fill("room", second.terms[0].b, (a.keys, "key_from + first", self.values,
                                               dim(a.second.depth)),
                   (second.n, "0", self.across, self.columns if self.across > self.columns else 0))

    def ends(self) -> None:
        """Results pass through shared memory, where there is room, so that a thread has several
        side by side."""
        (i, _, n), p = self.mine, self.at.p
        place, pitch = self._column("j"), self.columns + self.pad
        room = next((name for name, size in self.sizes.items()
                     if size >= self.blocks.rows * pitch), None)
        if self.partial is not None or room is None or self.columns % NEIGHBOURS:
            self.results("sums[i][j]", n, 1, place)
            return
        p.line(self.at.language.barrier)
        for var, count in (("i", i), ("j", n)):
            p.line("UNROLL")
            p.line(f"for (int {var} = 0; {var} < {count}; {var}++)")
        p.line(f"  if ({place} < {self.columns}) {room}[({self.row('i')}) * {pitch} + {place}] = "
               "sums[i][j] * (1 / total[i]);")
        p.line(self.at.language.barrier)
        groups = self.columns // NEIGHBOURS
        with p.braces(f"for (int e = thread_id(); e < {self.blocks.rows * groups}; "
                      f"e += {THREADS})"):
            p.line(f"const {self.index} at_m = m_from + e / {groups}, first = e % {groups} * "
                   f"{NEIGHBOURS};")
            self.neighbours(f"{room}[e / {groups} * {pitch} + first + c + {{u}}]", NEIGHBOURS)

    def _fill(self, array: str, value: Val, places: tuple[tuple[Var, ...], str, int, str],
              inner: tuple[tuple[Var, ...], str, int, int]) -> None:
        """A tile of an operand: variables, first, count and limit of its lines, and of what a line
        holds, 0 where that has no limit. Beyond limits there are zeros."""
        lines, (along, begin, width, end) = places, inner
        tile = _Tile(value, lines, (along, begin, width, str(end) if end else ""))
        p, vars, some = self.at.p, tile.inner[0], tile.together
        p.line(f"UNROLL_BY({NEIGHBOURS // some})")
        with p.braces(f"for (int e = thread_id(); e < {tile.size // some}; e += {THREADS})"):
            p.line(tile.place())
            p.line(f"{self.type} value[{some}] = {{}};")
            with p.braces(f"if ({tile.inside(some)})"), p.wide(vars[-1] if vars else None, some):
                self._value(tile, "r", "c", "value", some)
            if tile.ragged:
                with p.braces("else"):
                    p.line("UNROLL")
                    with p.braces(f"for (int u = 0; u < {some}; u++)"):
                        p.line(f"const int {'c' if tile.follows else 'r'}_one = "
                               f"{'c' if tile.follows else 'r'} + u;")
                        r, c = ("r", "c_one") if tile.follows else ("r_one", "c")
                        with p.braces(f"if ({tile.inside(1, r, c)})"):
                            self._value(tile, r, c, "value", 0)
            p.line("UNROLL")
            to = (f"r * {width + self.pad} + c + u" if tile.follows else
                  f"(r + u) * {width + self.pad} + c")
            p.line(f"for (int u = 0; u < {some}; u++) {array}[{to}] = {self.kept('value[u]')};")

    def _value(self, tile: _Tile, r: str, c: str, name: str, some: int) -> None:
        """Elements of an operand at a line and a place of it: ``some`` of them, or number ``u``."""
        p, lines, along = self.at.p, tile.lines, tile.along
        self.at.unpack(f"{lines[1]} + {r}", lines[0])
        self.at.unpack(f"{along[1]} + {c}", along[0])
        self.at.ensure([tile.value], (*self.a.second.batch, *lines[0], *along[0]))
        for u in range(max(1, some)):
            p.line(f"{name}[{u if some else 'u'}] = {p.ref(tile.value, u)};")

    def kept(self, value: str) -> str:
        """An element of an operand as it lies in shared memory."""
        return value

    def block(self) -> None:
        """One block of keys: scores, weights below the highest score so far, and their sums."""
        i, j, _ = self.mine
        self.at.p.line(f"{self.type} s[{i}][{j}] = {{}}, shrink[{i}];")
        self.scores()
        self._weights()
        self.weighted()

    def scores(self) -> None:
        """Sums of products in ``s``."""
        p, (i, j, _), (count, width) = self.at.p, self.mine, self.slices
        with p.braces(f"for (int first = 0; first < {count * width}; first += {width})"):
            p.line(self.at.language.barrier)
            self.fill_keys("first", width, count * width == self.depth)
            p.line(self.at.language.barrier)
            self._products("s", i, j, width,
                           f"queries[({self.row('i')}) * {self.terms + self.pad} + first + d + u]",
                           f"room[(column + {self.lanes} * j) * {width + self.pad} + d + u]")

    def weighted(self) -> None:
        """Weights times values."""
        p, keys, here, (i, _, n) = self.at.p, self.blocks.keys, self.values, self.mine
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {i}; i++)")
        p.line(f"  for (int j = 0; j < {n}; j++) sums[i][j] *= shrink[i];")
        with p.braces(f"for (int first = 0; first < {keys}; first += {here})"):
            p.line(self.at.language.barrier)
            self.fill_values()
            p.line(self.at.language.barrier)
            place = self._column("j")
            inside = "" if self.columns % self.lanes == 0 else f"{place} >= {self.columns} ? 0 : "
            self._products("sums", i, n, here,
                           f"weights[({self.row('i')}) * {keys + self.pad} + first + d + u]",
                           f"{inside}room[(d + u) * {self.across + self.pad} + {place}]")

    def _products(self, sums: str, rows: int, columns: int, terms: int, left: str,
                  right: str) -> None:
        """Of every row and column of a thread: products of terms ``d + u``."""
        p, some = self.at.p, self.step
        p.line(f"UNROLL_BY({_TERMS // some})")
        with p.braces(f"for (int d = 0; d < {terms}; d += {some})"):
            for array, name, count, value in (("x", "i", rows, left), ("y", "j", columns, right)):
                p.line(f"{self.type} {array}[{count}][{some}];")
                p.line("UNROLL")
                p.line(f"for (int {name} = 0; {name} < {count}; {name}++)")
                p.line("  UNROLL")
                p.line(f"  for (int u = 0; u < {some}; u++) {array}[{name}][u] = {value};")
            for name, count in (("u", some), ("i", rows), ("j", columns)):
                p.line("UNROLL")
                p.line(f"for (int {name} = 0; {name} < {count}; {name}++)")
            p.line(f"  {sums}[i][j] = s{self.letter}_fma(x[i][u], y[j][u], {sums}[i][j]);")

    def weigh(self, key: str) -> str:
        """A weight ``e`` of row ``i`` comes to where it is multiplied."""
        return f"weights[({self.row('i')}) * {self.blocks.keys + self.pad} + {key}] = e;"

    def _weights(self) -> None:
        """Sums of products become scores, and scores weights."""
        p, (i, j, _), lanes = self.at.p, self.mine, self.lanes
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {i}; i++)"):
            p.line(f"{self.type} top = {self.lowest}, more = 0;")
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line(f"const {self.index} at_m = m_from + {self.row('i')}, "
                       f"at_key = key_from + column + {lanes} * j;")
                self.score("s[i][j]")
                p.line(f"top = s{self.letter}_max(top, s[i][j]);")
            self.raised(lanes)
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line(f"const {self.type} e = {self.weight('s[i][j]')};")
                p.line(self.weigh(f"column + {lanes} * j"))
                p.line("more += e;")
            self.moved(lanes)
