"""What a multiprocessor has for rows between passes over them, by architecture and profile."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from tegg.extract.cost import Costs
from tegg.kernel.keeping import Keeping

_REGISTERS = 65536
_RESERVED = 2048  # bytes of a block: the system's, and those in which it reduces


@dataclass(frozen=True, slots=True)
class _Has:
    """Bytes of shared memory, and blocks of 256 threads at a time."""

    shared: int
    blocks: int


# As the programming guide lists them, by the architecture that they begin with.
_HAS = MappingProxyType({70: _Has(96 << 10, 8), 75: _Has(64 << 10, 4), 80: _Has(164 << 10, 8),
                         86: _Has(100 << 10, 6), 87: _Has(164 << 10, 6), 89: _Has(100 << 10, 6),
                         90: _Has(228 << 10, 8)})


def keeping_of(architecture: int, costs: Costs) -> Keeping:
    """The prices of a device: bandwidth as all multiprocessors together have it."""
    has = _HAS[max((a for a in _HAS if a <= architecture), default=min(_HAS))]
    near, far = costs.levels[0], costs.levels[-1]
    rates = [min(level.thread, level.total / costs.threads) for level in (near, far)]
    return Keeping(_REGISTERS, has.shared, has.shared - _RESERVED, has.blocks, 1 / rates[1],
                   1 / rates[0], near.size / costs.threads, 1 / costs.own_rate,
                   costs.latency * rates[1], costs.overlap)
