"""What a block of threads does of attention, however it multiplies: bounds, weights, results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.attention_forms import FEWEST, Blocks
from tegg.backends.simt.attention_total import Partial, finish
from tegg.backends.simt.ends import Ends
from tegg.backends.simt.evaluate import Evaluator
from tegg.dim import exact_div, hint
from tegg.kernel.attention_classify import Attention
from tegg.kernel.domain import spread


REDUCED = 256  # bytes of shared memory in which a block reduces
_CACHED = 16 << 20  # bytes that a device's cache holds while blocks beside one another read them


@dataclass(slots=True)
class AttentionBlock(ABC):
    """One block of queries at a time against blocks of keys. A thread has a part of ``halves``
    rows, whose highest score so far and sum of weights it keeps.

    partial: where sums of parts of the keys go.
    """

    a: Attention
    blocks: Blocks
    at: Evaluator
    partial: Partial | None = None

    @property
    @abstractmethod
    def halves(self) -> int:
        """Rows that a thread has a part of."""

    @property
    @abstractmethod
    def shared(self) -> int:
        """Bytes of shared memory that a block takes."""

    @property
    def at_once(self) -> int:
        """Blocks that a multiprocessor shall hold; 0: as many as a compiler makes room for."""
        return 0

    @property
    def asked(self) -> int:
        """Bytes of shared memory that a launch has to ask for."""
        return 0

    @property
    def room(self) -> int:
        """Bytes of shared memory that there are for a block."""
        return self.at.language.room

    def refused(self) -> str | None:
        """Why this block cannot be; None where it can."""
        room = self.room
        if self.shared + REDUCED > room:
            return (f"scores of {self.depth} terms and values of {self.columns} columns take "
                    f"{self.shared} bytes of shared memory in blocks of {self.blocks.rows} "
                    f"queries; there are {room}")
        return None

    def narrower(self) -> Blocks | None:
        """What takes less room than this block: half of its keys; None where there is nothing."""
        b = self.blocks
        return replace(b, keys=b.keys // 2) if b.keys > FEWEST else None

    @abstractmethod
    def row(self, i: str) -> str:
        """The row of the block that is number ``i`` of a thread."""

    @abstractmethod
    def arrays(self) -> list[str]:
        """Declarations of what a block shares."""

    @abstractmethod
    def start(self) -> None:
        """Where a thread stands, and sums of nothing."""

    @abstractmethod
    def queries(self) -> None:
        """The rows of the block, brought to where scores are computed."""

    @abstractmethod
    def block(self) -> None:
        """The keys from ``key_from`` on: their scores, their weights, and the weighted values."""

    @abstractmethod
    def ends(self) -> None:
        """What the sums become."""

    @property
    def index(self) -> str:
        """The type of what counts and addresses."""
        return self.at.p.index

    @property
    def letter(self) -> str:
        """Of the register that sums are kept in."""
        return REGISTER[self.a.scores.dtype.name]

    @property
    def type(self) -> str:
        return "double" if self.letter == "d" else "float"

    @property
    def maths(self) -> str:
        """What functions of it begin with."""
        return "sd_" if self.letter == "d" else "s_"

    @property
    def lowest(self) -> str:
        return f"-__builtin_inf{'' if self.letter == 'd' else 'f'}()"

    @property
    def columns(self) -> int:
        return hint(spread(self.a.second.groups[0].n))

    @property
    def depth(self) -> int:
        return hint(self.a.first.depth)

    def write(self) -> None:
        """All of it."""
        p, keys = self.at.p, self.blocks.keys
        for line in self.arrays():
            p.line(line)
        with self.tiles():
            self.start()
            self.seen()
            self.queries()
            if self.partial is None:
                self.over(f"low / {keys} * {keys}", "end")
            else:
                self._part()
                self.over("first_key", "last_key")
            self.ends()

    def _part(self) -> None:
        """The keys of this part: as many blocks of those that are seen as of every other."""
        p, keys, parts = self.at.p, self.blocks.keys, self.blocks.parts
        p.line(f"const {self.index} begin = low / {keys} * {keys}, "
               f"steps = low < end ? (end - begin + {keys - 1}) / {keys} : 0;")
        p.line(f"const {self.index} first_key = begin + steps * part / {parts} * {keys}, "
               f"until = begin + steps * (part + 1) / {parts} * {keys}, "
               "last_key = until < end ? until : end;")

    def over(self, first: str, end: str) -> None:
        """All blocks of keys between two."""
        p, keys = self.at.p, self.blocks.keys
        with p.braces(f"for ({self.index} key_from = {first}; key_from < {end}; "
                      f"key_from += {keys})"):
            self.block()

    @contextmanager
    def tiles(self):
        """All blocks of queries, as many at a time as there are blocks of threads."""
        a, p, rows, index = self.a, self.at.p, self.blocks.rows, self.index
        m, batch = dim(spread(a.second.m)), dim(spread(a.second.batch))
        some = self.together
        whole = exact_div(spread(a.second.batch), some) is not None
        items = batch if whole else f"(({batch} + {some - 1}) / {some} * {some})"
        p.line(f"const {index} down = ({m} + {rows - 1}) / {rows};")
        with p.braces(f"for ({index} tile = block_id(); tile < {self.blocks.parts} * {items} * "
                      "down; tile += block_count())"):
            if self.partial is not None:
                p.line(f"const {index} item = tile / down % {batch}, part = tile / down / {batch}, "
                       "place = tile % down;")
            elif some > 1:
                p.line(f"const {index} item = tile / ({some} * down) * {some} + tile % {some}, "
                       f"place = tile / {some} % down;")
                if not whole:
                    p.line(f"if (item >= {batch}) continue;")
            else:
                p.line(f"const {index} item = tile / down, place = tile % down;")
            self.at.unpack("item", a.second.batch)
            # of a causal mask the last rows see most: those blocks take longest, and begin first
            p.line(f"const {index} m_from = (down - 1 - place) * {rows};")
            yield

    @property
    def together(self) -> int:
        """Items of the batch whose longest blocks begin before all shorter ones of theirs, where
        some see more than others: those whose keys and values a cache of the device holds."""
        a = self.a
        if self.partial is not None:
            return 1
        item = hint(spread(a.keys)) * (self.depth + self.columns) * (8 if self.letter == "d" else 2)
        some = max(1, _CACHED // max(1, item)) if a.bounds else 1
        items = spread(a.second.batch)
        if not isinstance(items, int):
            return max(1, min(some, hint(items)))
        return -(-items // -(-items // some)) if items else 1  # of as many in each group

    def seen(self) -> None:
        """Which keys each row of a thread sees, and the block."""
        a, p, n = self.a, self.at.p, self.halves
        count = dim(a.second.depth)
        p.line(f"{self.type} high[{n}], total[{n}] = {{}};")
        p.line(f"{self.index} from[{n}], to[{n}], low = {count}, end = 0;")
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {n}; i++)"):
            p.line(f"const {self.index} at_m = m_from + {self.row('i')};")
            p.line(f"high[i] = {self.lowest};")
            p.line(f"from[i] = {count}, to[i] = 0;")
            with p.braces(f"if (at_m < {dim(spread(a.second.m))})"):
                p.line(f"from[i] = 0, to[i] = {count};")
                self.at.unpack("at_m", a.second.m)
                if a.bounds:
                    self.at.ensure([b.value for b in a.bounds], (*a.second.batch, *a.second.m))
                for b in a.bounds:
                    end, text, far = ("to", "<", "0") if b.upper else ("from", ">", count)
                    v = p.ref(b.value)  # of any size
                    p.line(f"if ({v} {text} {end}[i]) {end}[i] = {v} {text} {far} ? {far} : {v};")
            p.line("if (from[i] < to[i] && from[i] < low) low = from[i];")
            p.line("if (from[i] < to[i] && to[i] > end) end = to[i];")
        letter = "i" if self.index == "int" else "l"
        if letter not in p.rooms:
            p.rooms.append(letter)
        p.line(f"low = -block_max_{letter}(-low);")
        p.line(f"end = block_max_{letter}(end);")

    def score(self, name: str, seen: bool = False) -> None:
        """What the sum of row ``i`` and a key becomes: -inf where the row does not see it. seen:
        it is known to."""
        a, p = self.a, self.at.p
        with p.braces("" if seen else "if (at_key >= from[i] && at_key < to[i])"):
            self.at.unpack("at_m", a.second.m)
            self.at.unpack("at_key", a.keys)
            self.at.ensure([a.scores], (*a.second.batch, *a.second.m, *a.keys),
                           {a.product.id: name})
            p.line(f"{name} = {p.ref(a.scores)};")
            p.at.given = {}
        if not seen:
            p.line(f"else {name} = {self.lowest};")

    def raised(self, lanes: int) -> None:
        """The highest score of row ``i`` so far, from ``top`` of as many threads side by side."""
        p, largest = self.at.p, f"s{self.letter}_max"
        p.line(f"for (int d = {lanes // 2}; d > 0; d /= 2) top = {largest}(top, across(top, d));")
        p.line(f"const {self.type} now = {largest}(high[i], top), "
               f"base = {self.maths}base(now);")

    def weight(self, score: str) -> str:
        """The weight of a score below the highest so far."""
        return f"{self.maths}weight({score}, base)"

    def moved(self, lanes: int) -> None:
        """Row ``i`` goes on from its new maximum; ``more``: what a thread's weights sum to."""
        p = self.at.p
        if lanes > 1:
            p.line(f"for (int d = {lanes // 2}; d > 0; d /= 2) more += across(more, d);")
        p.line(f"shrink[i] = {self.maths}shrink(high[i], base);")
        p.line("total[i] = total[i] * shrink[i] + more;")
        p.line("high[i] = now;")

    def neighbours(self, name: str, most: int) -> None:
        """Store what ``most`` neighbours of row ``at_m``, from column ``first`` on, become.
        name: of number ``c + {u}`` of them."""
        (group,), p = self.a.second.groups, self.at.p
        ends = Ends(self.at, self.a.second, group)
        count, even = ends.together(most)
        saved, p.stores = p.stores, "whole_store"
        p.line("UNROLL")
        with p.braces(f"for (int c = 0; c < {most}; c += {count})"):
            p.line(f"const {self.index} from_n = first + c;")
            ends.store({group.terms[0].sum.id: name}, "from_n", count, even)
        p.stores = saved

    def results(self, name: str, columns: int, each: int, column: str) -> None:
        """Store what the sums become, divided by what their weights sum to, or the sums of this
        part. A thread has ``each`` neighbours of a row, ``columns`` times."""
        a, p = self.a, self.at.p
        for var, low, high in (("i", "0", self.halves), ("j", "0", columns),
                               ("e", f"{each} * i", f"{each} * i + {each}")):
            p.line("UNROLL")
            p.line(f"for (int {var} = {low}; {var} < {high}; {var}++)")
        with p.braces(""):
            p.line(f"const {self.index} at_m = m_from + {self.row('i')}, at_n = {column};")
            with p.braces(f"if (at_m < {dim(spread(a.second.m))} && at_n < {self.columns})"):
                if self.partial is not None:
                    self.partial.store(p, a, self.letter, name)
                else:
                    p.line(f"const {self.type} result = {name} * (1 / total[i]);")
                    finish(self.at, a, "result")

