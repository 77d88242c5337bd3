"""Attention by products of four warps at once: one group multiplies while the other weighs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tegg.backends.cuda.attention_wgmma import AttentionGroups
from tegg.backends.cuda.wgmma_forms import GROUP
from tegg.kernel.simt import THREADS

# Barriers: the turn of each group, and that the second one has read the tiles of a block of keys.
_TURN, _READ = 1, 3


@dataclass(slots=True)
class AttentionTurns(AttentionGroups):
    """Two groups take turns. In its own a group starts the products of its weights with values, and
    with them those of its next scores. While they go on the other group makes weights of its
    scores, and starts its products after those.

    The first group copies all keys and values, a block of each ahead of what its products read, so
    that it alone waits for copies: its turn tells the other that they have come. It copies to where
    both have read, which the second says after its products. What is computed is brought by all
    threads, between barriers of the whole block, as ``AttentionGroups`` has it.
    """

    @property
    def alternate(self) -> bool:
        """Whether there is nothing but copies."""
        return all(o.source is not None for o in self.operands)

    def over(self, first: str, end: str) -> None:
        if not self.alternate:
            AttentionGroups.over(self, first, end)
            return
        p, keys = self.at.p, self.blocks.keys
        with p.braces(""):
            p.line(f"const {self.index} begin = {first}, last = {end};")
            with p.braces("if (begin < last)"):
                self._keys_come("begin", "0", THREADS)
                self._values_come("begin", "0", THREADS)
            with p.braces(f"if (begin + {keys} < last)"):
                self._keys_come(f"begin + {keys}", "1", THREADS)
            p.line("copies_commit();")
            self.whole()
            p.line("copies_wait(0);")
            p.line("shown_to_products();")
            p.line("__syncthreads();")
            with p.braces("if (begin < last)"):
                self._turns()

    def _turns(self) -> None:
        """All blocks of keys. ``turn`` is where the values of one are, and the keys of the next but
        one come."""
        p, keys = self.at.p, self.blocks.keys
        p.line(f"float s[{keys // 8}][4], shrink[2];")
        p.line(f"uint32_t x[{keys // 16}][4];")
        p.line("wgmma_fence();")
        self._score("0")
        p.line("wgmma_commit();")
        p.line("wgmma_wait(0);")
        self._weights("begin")
        p.line(f"if (group == 1) group_came({_TURN});")
        p.line("int turn = 0;")
        with p.braces(f"for ({self.index} at = begin; at < last; at += {keys})"):
            p.line(f"const bool more = at + {keys} < last, then = at + {2 * keys} < last;")
            with p.braces("if (group == 0)"):
                p.line("copies_wait(0);")
                p.line("shown_to_products();")
            p.line(f"group_waits({_TURN} + group);")
            p.line("wgmma_fence();")
            self._add("turn")
            with p.braces("if (more)"):
                self._score("(1 - turn)")
            p.line("wgmma_commit();")
            p.line(f"if (group == 0 || more) group_came({_TURN + 1} - group);")
            with p.braces("if (group == 0 && more)"):
                p.line(f"if (at > begin) group_waits({_READ + 1} - turn);")
                self._values_come(f"at + {keys}", "(1 - turn)", GROUP)
                with p.braces("if (then)"):
                    self._keys_come(f"at + {2 * keys}", "turn", GROUP)
            p.line("copies_commit();")
            p.line("__syncwarp();")
            p.line("wgmma_wait(0);")
            p.line(f"wgmma_settle<{self.across // 2}>(sums[0]);")
            p.line(f"if (group == 1 && then) group_came({_READ} + turn);")
            with p.braces("if (more)"):
                self._weights(f"at + {keys}")
            p.line("turn = 1 - turn;")

    def _score(self, tile: str) -> None:
        """The products of queries and one tile of keys start."""
        p = self.at.p
        p.line(f"const uint64_t k_now = k_at + {tile} * {self.turn // 16};")
        self.scores_start("k_now")

    def _add(self, tile: str) -> None:
        """Those of the weights and one tile of values."""
        p = self.at.p
        p.line(f"const uint64_t v_now = v_at + {tile} * {self.turn // 16};")
        self.weighted_start("v_now")

    def _weights(self, key: str) -> None:
        """What scores of the keys from one on become."""
        p = self.at.p
        with p.braces(""):
            p.line(f"const {self.index} key_from = {key};")
            p.line(f"wgmma_settle<{self.blocks.keys // 2}>(s[0]);")
            self.weigh_all()
        p.line("__syncwarp();")
        p.line(f"wgmma_settle<{self.across // 2}>(sums[0]);")

    def _keys_come(self, key: str, tile: str, workers: int) -> None:
        """So many threads start to copy the keys from one on."""
        k = replace(self.operands[1], workers=workers)
        self._as(f"{self.tiles_from} + {tile} * {self.turn}", key, lambda: k.copies(self.at, "0"))

    def _values_come(self, key: str, tile: str, workers: int) -> None:
        """The same of their values."""
        _, k, v = self.operands
        v = replace(v, workers=workers)
        self._as(f"{self.tiles_from} + {tile} * {self.turn} + {k.bytes}", "0",
                 lambda: v.copies(self.at, "0"), key)
