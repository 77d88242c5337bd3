"""The dialect of C that the CUDA backend prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tegg.backends.cexpr import MEMORY, Dialect
from tegg.backends.simt.language import WRAPPING_OPS, SimtC
from tegg.dtype import DType
from tegg.kernel.simt import THREADS

_SCALAR = MappingProxyType({"f": "float", "d": "double", "i": "int32_t", "l": "int64_t",
                            "u": "uint8_t", "c": "int8_t", "b": "int"})
_MEMORY = MappingProxyType({**_SCALAR, "h": "uint16_t", "g": "uint16_t", "b": "uint8_t"})


@dataclass(frozen=True, slots=True)
class CudaC(SimtC):
    """CUDA C. The names that kernels use, ``block_id()`` and so on, are those of ``prelude.h``."""

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.width, _SCALAR, _SCALAR, _MEMORY, WRAPPING_OPS)

    @property
    def shared(self) -> str:
        return "__shared__"

    @property
    def room(self) -> int:
        return 48 << 10

    @property
    def barrier(self) -> str:
        return "__syncthreads();"

    def head(self, name: str, buffers: Mapping[int, DType], symbols: Sequence[str],
             rooms: Sequence[str] = (), index: str = "int64_t",
             blocks: int = 0) -> list[str]:
        args = [f"{_MEMORY[MEMORY[d.name]]} *const b{slot}" for slot, d in buffers.items()]
        given = "S" if index == "int64_t" else "size"
        args += [f"const int64_t {given}_{s}" for s in symbols]
        return [f"KERNEL({THREADS}{f', {blocks}' if blocks else ''}) {name}({', '.join(args)}) {{",
                *(f"  const {index} S_{s} = ({index})size_{s};" for s in symbols
                  if given == "size")]
