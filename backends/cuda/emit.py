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
_SIZES = MappingProxyType({"float": 4, "double": 8, "int32_t": 4, "int64_t": 8, "uint8_t": 4,
                           "int8_t": 4, "int": 4})  # of a kept value, registers of 32 bits
# Bytes that rows may take by architecture: two blocks of a multiprocessor have them.
_ROWS = MappingProxyType({75: 31 << 10, 80: 80 << 10, 86: 48 << 10, 87: 80 << 10, 89: 48 << 10,
                          90: 112 << 10})


def cuda_c(architecture: int) -> CudaC:
    """The dialect for a compute capability."""
    known = [a for a in _ROWS if a <= architecture]
    return CudaC(rows=_ROWS[max(known)]) if known else CudaC()


@dataclass(frozen=True, slots=True)
class CudaC(SimtC):
    """CUDA C. The names that kernels use, ``block_id()`` and so on, are those of ``prelude.h``."""

    rows: int = 46 << 10

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
    def most(self) -> int:
        return 2 * self.rows

    def kept(self, arrays: Mapping[str, tuple[str, int]]) -> list[str]:
        lines, at = ["  ROOM(kept);"], 0
        for name, (kind, length) in arrays.items():
            lines.append(f"  {kind} *const {name} = ({kind} *)(kept + {at});")
            at += _SIZES[kind] * length
        return lines

    def set_aside(self, nbytes: int) -> int:
        return nbytes

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
