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
PACKAGE, DIRECT = (2, 3), (3, 1)  # versions: metalcompute's, and where Metal itself is asked
NO_F64 = ("Metal has no float64; cast to float32 what is computed here, x.astype('f32'), and "
          "arrays that the program is given before the call")


@dataclass(frozen=True, slots=True)
class Msl(SimtC):
    """The Metal Shading Language of a version. The names that kernels use are those of
    ``prelude.h``.

    A kernel has three buffers: two that hold all arrays, and numbers, ``given``: a zero, where in
    them each of its pointers lies, and sizes.
    """

    version: tuple[int, int] = PACKAGE

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

    @property
    def barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_threadgroup);"

    def head(self, name: str, buffers: Mapping[int, DType], symbols: Sequence[str],
             rooms: Sequence[str] = (), index: str = "int64_t",
             blocks: int = 0) -> list[str]:
        if any(d.name == "f64" for d in buffers.values()):
            raise LoweringError(NO_F64)
        args = ["device uchar *fixed [[buffer(0)]]", "device uchar *memory [[buffer(1)]]",
                "constant int64_t *given [[buffer(2)]]"]
        args += [f"uint {short} [[{place}]]" for short, place in zip(_NAMES, _PLACES)]
        lines = [f"[[max_total_threads_per_threadgroup({THREADS})]]",
                 f"kernel void {name}({', '.join(args)}) {{",
                 "  const int hidden = (int)given[0];", "  (void)hidden;"]
        for at, (slot, d) in enumerate(buffers.items()):
            kind = f"device {_MEMORY[MEMORY[d.name]]} *"
            lines.append(f"  {kind}const b{slot} = ({kind})lies(fixed, memory, given[{at + 1}]);")
        lines += [f"  const {index} S_{s} = ({index})given[{len(buffers) + 1 + i}];"
                  for i, s in enumerate(symbols)]
        if rooms:
            lines.append(f"  const int threads_of_block = {THREADS};")
        return [*lines, *(f"  SHARED {_SCALAR[letter]} room_{letter}[{THREADS // WARP}];"
                          for letter in rooms)]
