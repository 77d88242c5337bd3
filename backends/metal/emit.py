"""The dialect of C that the Metal backend prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tegg.backends.cexpr import MEMORY, Dialect
from tegg.backends.simt.language import WRAPPING_OPS, SimtC
from tegg.dtype import DType
from tegg.errors import LoweringError
from tegg.kernel.simt import THREADS, WARP

_SCALAR = MappingProxyType({"f": "float", "i": "int32_t", "l": "int64_t", "u": "uint8_t",
                            "c": "int8_t", "b": "int"})
_MEMORY = MappingProxyType({**_SCALAR, "h": "half", "g": "ushort", "b": "uint8_t"})
_PLACES = ("thread_position_in_threadgroup", "thread_index_in_simdgroup",
           "threadgroup_position_in_grid", "threadgroups_per_grid")
_NAMES = ("thread_at", "lane_at", "block_at", "blocks_in_all")
MOST_BUFFERS = 31  # that a kernel is handed
PACKAGE, DIRECT = (2, 3), (3, 1)  # versions: metalcompute's, and where Metal itself is asked
NO_F64 = ("Metal has no float64; cast to float32 what is computed here, x.astype('f32'), and "
          "arrays that the program is given before the call")


@dataclass(frozen=True, slots=True)
class Msl(SimtC):
    """The Metal Shading Language of a version. The names that kernels use are those of
    ``prelude.h``.

    A kernel has a buffer of numbers, ``given``: a zero, and sizes. Where it is ``bound`` there is a
    buffer for each array beside it; else two that hold all arrays, and where in them each of its
    pointers lies stands before the sizes.
    """

    version: tuple[int, int] = PACKAGE
    bound: bool = False
    rows: int = 31 << 10  # of the 32 KiB that there are; the rest is what reductions take

    @property
    def mixed(self) -> bool:
        """Whether matrices of halves are known to be multiplied into sums of float32."""
        return self.version >= DIRECT

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.width, _SCALAR, _SCALAR, _MEMORY, WRAPPING_OPS)

    @property
    def shared(self) -> str:
        return "SHARED"

    @property
    def room(self) -> int:
        return 32 << 10

    def kept(self, arrays: Mapping[str, tuple[str, int]]) -> list[str]:
        return [f"  {self.shared} {kind} {name}[{length}];"
                for name, (kind, length) in arrays.items()]

    def set_aside(self, nbytes: int) -> int:
        return 0  # they are declared, and no launch asks for them

    @property
    def barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_threadgroup);"

    def head(self, name: str, buffers: Mapping[int, DType], symbols: Sequence[str],
             rooms: Sequence[str] = (), index: str = "int64_t",
             blocks: int = 0) -> list[str]:
        if any(d.name == "f64" for d in buffers.values()):
            raise LoweringError(NO_F64)
        if self.bound and len(buffers) >= MOST_BUFFERS:
            raise LoweringError(f"a kernel of {len(buffers)} arrays; Metal binds {MOST_BUFFERS} "
                                f"buffers, of which one holds sizes")
        kinds = {slot: f"device {_MEMORY[MEMORY[d.name]]} *" for slot, d in buffers.items()}
        arrays = ([f"{kind}b{slot}" for slot, kind in kinds.items()] if self.bound else
                  ["device uchar *fixed", "device uchar *memory"])
        args = [f"{text} [[buffer({i})]]"
                for i, text in enumerate([*arrays, "constant int64_t *given"])]
        args += [f"uint {short} [[{place}]]" for short, place in zip(_NAMES, _PLACES)]
        lines = [f"[[max_total_threads_per_threadgroup({THREADS})]]",
                 f"kernel void {name}({', '.join(args)}) {{",
                 "  const int hidden = (int)given[0];", "  (void)hidden;"]
        if not self.bound:
            lines += [f"  {kind}const b{slot} = ({kind})lies(fixed, memory, given[{at + 1}]);"
                      for at, (slot, kind) in enumerate(kinds.items())]
        first = 1 if self.bound else len(buffers) + 1
        lines += [f"  const {index} S_{s} = ({index})given[{first + i}];"
                  for i, s in enumerate(symbols)]
        if rooms:
            lines.append(f"  const int threads_of_block = {THREADS};")
        return [*lines, *(f"  SHARED {_SCALAR[letter]} room_{letter}[{THREADS // WARP}];"
                          for letter in rooms)]
