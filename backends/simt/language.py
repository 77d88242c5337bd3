"""A dialect of C for blocks of threads, as lowering wants it: one thread's work, in scalars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tegg.backends.cexpr import Dialect
from tegg.backends.simt.printer import launch, print_kernel
from tegg.backends.spelling import OPS
from tegg.dtype import DType
from tegg.kernel.code import Launch
from tegg.kernel.index import Algebra
from tegg.kernel.keeping import Keeping
from tegg.kernel.loops import Function
from tegg.kernel.lower import Template

MOST_SHARED = 32768  # bytes that a block may share on every device
_TEMPLATES: Mapping[str, Template] = MappingProxyType({})
# Signed sums may not overflow in C++, so integers go through functions that wrap.
WRAPPING_OPS = MappingProxyType({**OPS, **{
    (name, "int"): f"{{v}}{name.lower()}({', '.join(args)})"
    for name, args in (("Add", ("{0}", "{1}")), ("Neg", ("{0}",)), ("Mul", ("{0}", "{1}")),
                       ("Sub", ("{0}", "{1}")))}})


@dataclass(frozen=True, slots=True)
class SimtC(ABC):
    """What kernels of all such devices have in common; a device adds its words.

    ``width``: values of 32 bits in the widest access. ``rows``: bytes that a block may share for
    rows that registers do not hold, so few that two blocks have them at a time, where no prices are
    given. ``keeping``: prices of where such rows stay.
    """

    width: int = 4
    rows: int = 0
    keeping: Keeping | None = None

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """Types of registers and memory, and the spelling of ops."""

    @property
    @abstractmethod
    def shared(self) -> str:
        """What qualifies an array that a block shares."""

    @property
    @abstractmethod
    def room(self) -> int:
        """Bytes of memory that a block may share."""

    @property
    def most(self) -> int:
        """Bytes of it where a launch asks for them."""
        return self.room

    @abstractmethod
    def kept(self, arrays: Mapping[str, tuple[str, int]]) -> list[str]:
        """Lines that declare arrays of the block's memory: by name their type and length."""

    @abstractmethod
    def set_aside(self, nbytes: int) -> int:
        """Bytes that a launch has to ask for where such arrays take so many."""

    @property
    @abstractmethod
    def barrier(self) -> str:
        """The statement at which the threads of a block meet."""

    @abstractmethod
    def head(self, name: str, buffers: Mapping[int, DType], symbols: Sequence[str],
             rooms: Sequence[str] = (), index: str = "int64_t",
             blocks: int = 0) -> list[str]:
        """The lines that open a kernel: pointers ``b<slot>``, then sizes ``S_<symbol>``.

        rooms: letters of the registers that its blocks reduce. index: the type of sizes.
        blocks: how many a multiprocessor shall hold; where that is not stated a compiler may
        spill registers to have room for more.
        """

    @property
    def native(self) -> frozenset[str]:
        return self.dialect.native

    @property
    def doubles(self) -> bool:
        return "d" in self.dialect.scalar

    @property
    def templates(self) -> Mapping[str, Template]:
        return _TEMPLATES

    def function(self, algebra: Algebra, function: Function) -> str:
        return print_kernel(self, algebra, function)

    def launch(self, algebra: Algebra, function: Function) -> Launch:
        return launch(self, algebra, function)
