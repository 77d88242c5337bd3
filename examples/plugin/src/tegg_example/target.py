"""The toy accelerator as a target: its rows, its rules, its costs, and programs that run on it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tegg.extend import Costs, Fragment, Interpreter, KernelCode, Op, Plan, load_costs

from .lower import SOURCES, lower
from .ops import ROWS
from .simulator import Machine

HERE = Path(str(files("tegg_example")))


class Toy:
    """A device with a memory of its own. ``machine`` counts what it was asked to do."""

    name = "toy"
    features: frozenset[str] = frozenset()
    rules = (str(HERE / "rules" / "toy.egg"),)
    ops = ROWS
    providers = ()

    def __init__(self) -> None:
        self.machine = Machine()

    def identity(self) -> str:
        """What makes plans for this device differ."""
        return "toy 1"

    def costs(self) -> Costs:
        return load_costs(HERE / "toy.toml")

    def unsupported(self, op: Op, dtype) -> str | None:
        if op in ROWS or op.name in SOURCES:
            return None
        return "the toy has no such instruction, and no rule that maps it to some"

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        return lower(fragment, name)

    def build(self, plan: Plan) -> Interpreter:
        return Interpreter(plan, self.machine.launch)


def target() -> Toy:
    """The entry point ``tegg.backends: toy``."""
    return Toy()
