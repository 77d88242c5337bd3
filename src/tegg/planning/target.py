"""What a backend provides, and how it is found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tegg import plugins
from tegg.ir.classes import Fragment
from tegg.dim import Dim, Shape, Symbol
from tegg.dtype import DType
from tegg.errors import BackendError
from tegg.kernel.code import KernelCode
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.places import copied
from tegg.planning.plan import Plan

if TYPE_CHECKING:
    from tegg.extract.cost import Costs
    from tegg.extract.profile import Profile


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array of a call, for a fast call path. ``buffers`` of the plan get its pointer.

    ``allocate(shape, dtype)`` makes a result.
    """

    name: str
    dtype: np.dtype
    shape: Shape
    buffers: tuple[int, ...]
    writable: bool = False
    allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.empty


class DeviceArrays(Protocol):
    """Arrays that lie on a device whose memory is its own. ``view`` and ``empty`` give objects with
    ``address``, ``shape``, ``dtype``, ``nbytes``. ``wanted``: results are given there unless the
    caller gives arrays for them."""

    wanted: bool

    def view(self, name: str, value: object, dtype: DType) -> Any:
        """An array of any library, in place. Raises where kernels cannot use it as it lies."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Fresh memory for an array."""

    def copy(self, to: Any, source: Any) -> None:
        """Copy one array to the memory of another, in the order of runs."""

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays share memory."""

    def give(self, array: Any) -> Any:
        """What the caller gets of an array that ``empty`` made."""


class Executable(Protocol):
    """A plan that is built for a device and can run. ``buffers``: a table of one pointer per
    buffer of the plan; ``sizes``: int64, in the order of the plan's symbols.
    """

    def run(self, buffers: Any, sizes: Any) -> None:
        """Run the plan: copies before, its calls, copies after."""

    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        """Take the weights, and run the calls that depend on them only. Comes before any run."""

    def profile(self, buffers: Any, sizes: Any) -> list[float]:
        """Run once and give the seconds of each call of the plan."""

    def source(self) -> str:
        """The program text that was compiled."""

    def bound(self, buffers: Any, sizes: Sequence[int], keep: object) -> Callable[[], None]:
        """A function of no arguments that runs on these buffers; ``keep`` lives as long as it.
        Calls of it from several threads run one after the other."""

    def caller(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec],
               symbols: Sequence[Symbol], claims: Sequence[Dim]) -> Any | None:
        """A fast call path (``call(*arrays)``, ``clear()``), or None. ``call`` gives None, with
        nothing done, where arguments need more than a run on prepared memory."""

    def prepare(self, caller: Any, buffers: Any, keep: object, sizes: Sequence[int]) -> None:
        """Give the fast path memory for one more run in flight at these sizes."""


class DeviceExecutable(Executable, Protocol):
    """One whose device has memory of its own, and arrays in it. It is given no arena.

    resident: numbers of the buffers whose addresses are the device's. keep: lives until the run
    is done.
    """

    arrays: DeviceArrays

    def run(self, buffers: Any, sizes: Any, resident: frozenset[int] = frozenset(),
            keep: object = None) -> None:
        """See ``Executable.run``; where all buffers are resident it need not wait for the run."""

    def profile(self, buffers: Any, sizes: Any,
                resident: frozenset[int] = frozenset()) -> list[float]:
        """See ``Executable.profile``."""

    def bound(self, buffers: Any, sizes: Sequence[int], keep: object,
              resident: frozenset[int] = frozenset()) -> Callable[[], None]:
        """See ``Executable.bound``."""

    def timed(self, buffers: Any, sizes: Any, repeats: int,
              resident: frozenset[int] = frozenset()) -> list[float]:
        """Seconds of each of several runs by the device's clock; the host's arrays are copied
        before the first and after the last. Left out where the device has no clock."""


class Target(Protocol):
    """A device: which rules lower for it, what its kernels cost, how they are made and run.

    features: what it can do, for rules that ask. rules, ops, providers: rule sets (as a Compiler
    takes them) with the rows of its templates and the facts that they need; they are stacked
    after the user's. One whose memory is its own may also have ``copies`` (``ir/places.py``); it
    then gets programs with those at their borders. One that heeds ``Call.offsets`` has ``begins``:
    bytes of which a call may begin to read a buffer at any multiple.
    """

    name: str
    features: frozenset[str]
    rules: tuple[str, ...]
    ops: tuple[Op, ...]
    providers: tuple[Any, ...]

    def identity(self) -> str:
        """Everything that makes plans for this device differ: features, toolchain, version."""

    def costs(self) -> Costs:
        """The cost profile in use."""

    def unsupported(self, op: Op, dtype: DType) -> str | None:
        """Why an op cannot be lowered for a dtype of its result, or None if it can."""

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        """Source of one kernel. ``constant``: input slots that hold weights, or what was computed
        from them ahead; a stage that reads only those runs ahead."""

    def build(self, plan: Plan) -> Executable:
        """Compile and load a plan."""


@runtime_checkable
class Tunable(Target, Protocol):
    """A target that can measure what its kernels cost on this machine."""

    def machine(self) -> str:
        """The device, in words: a profile that was measured on one is for that one."""

    def tune(self, quick: bool = False, step: Callable[[str], None] = lambda name: None) -> Profile:
        """Measure this machine. ``step`` is told what has been done, ``tune_steps`` times."""

    def tune_steps(self, quick: bool = False) -> int:
        """How many steps ``tune`` tells of."""


@runtime_checkable
class Configured(Target, Protocol):
    """A target with choices of its own, which programs that are saved keep."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The choices, as plain data."""

    def configured(self, settings: Mapping[str, Any]) -> Target:
        """The target with choices that were saved. Raises BackendError where they cannot be."""


@runtime_checkable
class Varied(Target, Protocol):
    """A target whose machines differ in what they offer to rules."""

    def complete(self) -> Target:
        """Of the machine that has everything: what rules are checked for, wherever that is."""


@runtime_checkable
class Shared(Target, Protocol):
    """A target whose costs depend on how many threads share a run, which users may choose."""

    def steady_costs(self) -> Costs:
        """The cost profile in use, for one number of threads whatever they choose."""


def costs_of(target: Target, precision: str) -> Costs:
    """The prices by which plans of a precision are chosen. In class bitwise that is the same plan
    for any number of threads: another one may add what it sums in another order."""
    if precision == "bitwise" and isinstance(target, Shared):
        return target.steady_costs()
    return target.costs()


def on_device(graph: Graph, target: Target) -> Graph:
    """A graph as a target runs it: with copies at its borders, where the target's memory is its own
    (it then has ``copies``, see ``ir/places.py``)."""
    return copied(graph, getattr(target, "copies", None))


NEEDED = ("name", "features", "rules", "ops", "providers", "identity", "costs", "unsupported",
          "lower", "build")


def check_target(made: object, what: str) -> None:
    """Raises BackendError where an object lacks something that targets have."""
    if isinstance(made, type):
        raise BackendError(f"{what} is the class {made.__name__}; write {made.__name__}(), an "
                           f"object of it")
    lacks = [n for n in NEEDED if not hasattr(made, n)]
    if lacks:
        raise BackendError(f"{what} has no {', '.join(lacks)}; see tegg.planning.target.Target")


def find(name: str, settings: Mapping[str, Any] | None = None) -> Target:
    """The target of a device name (entry points ``tegg.backends``: a function that gives a Target),
    with the settings of a program that was saved. What stands behind a colon, ``cuda:sm_90``, is
    the function's argument: which device, or for which one that is not here to plan.

    Raises BackendError for a name that nobody offers or two packages do, and for a package that
    does not load.
    """
    if not isinstance(name, str):
        raise BackendError(f"a device is named by a text, such as 'cpu', not {name!r}; stack a "
                           f"target of your own, tegg.Compiler(target=...)")
    device, colon, model = name.partition(":")
    made: Target = plugins.load("tegg.backends", "device", device, BackendError,
                                *([model] if colon else []))
    check_target(made, f"what a package offers as device {name!r}")
    return made.configured(settings) if settings and isinstance(made, Configured) else made
