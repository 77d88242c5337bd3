"""Apple's chips as data sheets give them: GPU family, cores, memory bandwidth."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tegg.extract.cost import Costs, load_costs


@dataclass(frozen=True, slots=True)
class Chip:
    """family: of Metal's features. cores: of the largest GPU sold. bandwidth: bytes a second."""

    family: str
    cores: int
    bandwidth: float


# No figure here was measured.
CHIPS = {
    "M1": Chip("apple7", 8, 68e9), "M1 Pro": Chip("apple7", 16, 200e9),
    "M1 Max": Chip("apple7", 32, 400e9), "M1 Ultra": Chip("apple7", 64, 800e9),
    "M2": Chip("apple8", 10, 100e9), "M2 Pro": Chip("apple8", 19, 200e9),
    "M2 Max": Chip("apple8", 38, 400e9), "M2 Ultra": Chip("apple8", 76, 800e9),
    "M3": Chip("apple9", 10, 100e9), "M3 Pro": Chip("apple9", 18, 150e9),
    "M3 Max": Chip("apple9", 40, 400e9), "M3 Ultra": Chip("apple9", 80, 819e9),
    "M4": Chip("apple9", 10, 120e9), "M4 Pro": Chip("apple9", 20, 273e9),
    "M4 Max": Chip("apple9", 40, 546e9),
}
_TOGETHER = 4e-6  # a launch among others of its command buffer
_REACHED = 0.85   # of the bandwidth of memory that data sheets give
_UNKNOWN = Chip("apple7", 8, 68e9)  # what every later one can do, too
_NAME = re.compile(r"M\d+(?: (?:Pro|Max|Ultra))?\b")


def chip_of(device: str) -> Chip:
    """The chip of a device's name, ``Apple M2 Pro``; one that is not listed counts as the least."""
    found = _NAME.search(device)
    return CHIPS.get(found.group(0), _UNKNOWN) if found else _UNKNOWN


def cores_of(device: str) -> int:
    """How many cores its GPU has at most."""
    return chip_of(device).cores


def costs_of(device: str, together: bool = False) -> Costs:
    """The profile of its family at its size: a core is a thread, memory is what all share, and the
    cache before it grows with the controllers of memory.

    together: the kernels of a run are in one command buffer.
    """
    chip = chip_of(device)
    costs = load_costs(f"metal/{chip.family}")
    near, far = costs.levels
    memory = _REACHED * chip.bandwidth
    wider = memory / far.total
    launch = _TOGETHER if together else costs.launch
    return replace(costs, launch=launch, name=f"{costs.name} {chip.cores} cores",
                   threads=chip.cores, levels=(
                       replace(near, size=near.size * wider, total=near.total * wider),
                       replace(far, total=memory)))
