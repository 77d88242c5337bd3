"""The price of a kernel in seconds, from what it executes and a device's profile (a TOML file)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path

from tegg.dtype import DTYPES, DType
from tegg.errors import ArgumentError
from tegg.ir.demand import Demand, Product


@dataclass(frozen=True, slots=True)
class Level:
    """Where a buffer lies that takes up to ``size`` bytes: bytes a second of one thread, of all."""

    size: float
    thread: float
    total: float


@dataclass(frozen=True, slots=True)
class Costs:
    """A device as extraction sees it. Rates are per second and thread; see docs of each field.

    launch: seconds to start a stage of a kernel and wait for all its threads.
    overlap: share of the shorter of memory and compute time that hides behind the longer one; a
      plain roofline (1.0) cannot tell a kernel that saves bytes under a product from one that
      does not.
    levels: caches and memory, nearest first; the last one takes everything.
    store: times that a written byte costs a read one (a line is read before it is written).
    loop_rate: weighted scalar operations of generated loops; ``ops`` overrides the op table's
      weights, ``loop_dtypes`` multiplies the time per dtype.
    load: operations that a load from cache counts as. keep: operations from which a value that
      several passes over a row want is kept in a scratch row.
    product_rate: floating-point operations of a large product; each extent e is slowed by
      ``e / (e + half)``, but those that a template counts itself. panel: extent after which a
      packed operand is packed again. pack: operations that copying an element to a panel counts
      as. ahead: the share of packing ahead that a run pays for. ``templates`` multiplies the time
      of products per template (its op's name).
    """

    name: str
    threads: int
    launch: float
    overlap: float
    levels: tuple[Level, ...]
    store: float
    loop_rate: float
    load: float
    keep: float
    product_rate: float
    product_half: tuple[float, float, float]
    panel: int
    pack: float = 5.0
    ahead: float = 0.01
    ops: Mapping[str, float] = field(default_factory=dict)
    loop_dtypes: Mapping[str, float] = field(default_factory=dict)
    product_dtypes: Mapping[str, float] = field(default_factory=dict)
    templates: Mapping[str, float] = field(default_factory=dict)
    forms: Mapping[str, float] = field(default_factory=dict)  # storage form -> bytes an element

    def itemsize(self, dtype: DType, form: str = "") -> float:
        """Bytes of one stored element. Raises ArgumentError for a form of unknown size."""
        if not form:
            return dtype.itemsize
        if form in DTYPES:
            return DTYPES[form].itemsize
        if form in self.forms:
            return self.forms[form]
        raise ArgumentError(f"the cost profile {self.name!r} has no size for the storage form "
                            f"{form!r}; add it under [forms] as bytes an element")

    def with_ops(self, ops: Mapping[str, float]) -> Costs:
        """The same device, where some ops cost other numbers of operations per element."""
        return replace(self, ops={**self.ops, **ops}) if ops else self

    def seconds(self, work: Demand, loaded: Sequence[float], stored: Sequence[float]) -> float:
        """Predicted time of one kernel that reads and writes buffers of so many bytes: memory
        against compute, then its launch."""
        threads = min(self.threads, max(1, work.rows)) if work.rows is not None else self.threads
        memory = (sum(self.memory(b, threads) for b in loaded)
                  + self.store * sum(self.memory(b, threads) for b in stored))
        compute = sum(self.product(p) for p in work.products)
        for dtype, operations in work.loops:
            compute += operations * self.loop_dtypes.get(dtype.name, 1.0) / self.loop_rate
        compute /= threads
        memory += sum(self.copies(p, threads) for p in work.products)
        memory += sum(self.panels(p, threads) for p in work.products)
        stages = 1 + max(map(self.stages, work.products), default=0)
        longer, shorter = max(memory, compute), min(memory, compute)
        return longer + (1.0 - self.overlap) * shorter + self.launch * (stages + work.splits)

    def memory(self, size: float, threads: int) -> float:
        """Seconds to read a buffer of ``size`` bytes from where it lies since it was written.

        Each buffer is judged by itself: were it by what the kernel touches in all, two kernels
        would seem cheaper than one that does the work of both.
        """
        level = next((v for v in self.levels if size <= v.size), self.levels[-1])
        return size / min(level.thread * threads, level.total)

    def product(self, p: Product) -> float:
        """Seconds of a contraction's arithmetic on one thread, the copying of panels included."""
        e, done = p.extents, p.execution
        rate = self.product_rate / self.product_dtypes.get(e.dtype.name, 1.0)
        slow = 1.0
        for extent, half in zip((e.k,) if done else (e.k, e.m, e.n), self._halves):
            slow *= (extent + half) / max(1, extent)
        if done is None:
            return e.flops * slow / rate
        loops = done.packed * self._share(p) * self.pack + done.beside
        return (self.templates.get(p.op, 1.0) * done.flops * slow / (rate * done.speed)
                + loops * self.loop_dtypes.get(e.dtype.name, 1.0) / self.loop_rate)

    def _share(self, p: Product) -> float:
        """The share of packing that a run pays for: all, but for what is kept from before it."""
        return self.ahead if p.ready and p.execution and p.execution.kept else 1.0

    @property
    def _halves(self) -> tuple[float, float, float]:
        m, n, k = self.product_half
        return k, m, n

    def copies(self, p: Product, threads: int) -> float:
        """Seconds to write what a template sets aside, and to read it back."""
        done, size = p.execution, p.extents.dtype.itemsize
        if done is None:
            return 0.0
        out = self.memory(done.aside * size, threads)
        if done.kept:
            size = done.itemsize or size
            panels = done.packed / done.kept * self.memory(done.kept * size, threads)
            out += self._share(p) * panels
        return (1.0 + self.store) * out

    def panels(self, p: Product, threads: int) -> float:
        """Seconds to read what was packed before the run, in place of what it was packed from."""
        done = p.execution
        if not p.ready or done is None or not done.kept:
            return 0.0
        return self.memory(done.kept * (done.itemsize or p.extents.dtype.itemsize), threads)

    def stages(self, p: Product) -> int:
        """How many functions of a template wait for one another, beyond the first."""
        return 0 if p.execution is None else p.execution.stages


def load_costs(source: str | Path, threads: int | None = None) -> Costs:
    """The profile of a TOML file, or of a shipped one named ``"cpu/generic"``.

    ``threads`` overrides the profile's. Raises ArgumentError for a missing or malformed profile.
    """
    where = _locate(source)
    try:
        data = tomllib.loads(where.read_text(encoding="utf-8"))
    except OSError as e:
        raise ArgumentError(f"no cost profile {source!s}: {e}; shipped ones are named as in "
                            f"'cpu/generic'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ArgumentError(f"the cost profile {source!s} is not TOML: {e}") from None
    if threads is not None:
        data["threads"] = threads
    return _checked(data, str(source))


def _locate(source: str | Path):
    if isinstance(source, str) and not source.endswith(".toml"):
        device, _, profile = source.partition("/")
        return files("tegg.backends").joinpath(device, "costs", f"{profile or 'generic'}.toml")
    return Path(source)


def _checked(data: dict, source: str) -> Costs:
    """Every number present, of its kind and positive; nothing that is not known."""
    known = {f.name: str(f.type) for f in fields(Costs)}
    tables = {f.name for f in fields(Costs) if f.default_factory is not MISSING}
    optional = tables | {f.name for f in fields(Costs) if f.default is not MISSING}
    wrong = sorted(set(data) - set(known)) + sorted(set(known) - set(data) - optional)
    if wrong:
        raise ArgumentError(f"cost profile {source}: {', '.join(wrong)} is unknown or missing; "
                            f"a profile has {', '.join(known)}")
    try:
        data["levels"] = tuple(Level(**{k: float(v) for k, v in level.items()})
                               for level in data["levels"])
        data["product_half"] = tuple(map(float, data["product_half"]))
        for name in tables & set(data):
            data[name] = {k: float(v) for k, v in data[name].items()}
        for name, kind in known.items():
            if kind in ("float", "int") and name in data:
                data[name] = int(data[name]) if kind == "int" else float(data[name])
    except (TypeError, ValueError, AttributeError) as e:
        raise ArgumentError(f"cost profile {source}: {e}") from None
    costs = Costs(**data)
    numbers: list[float] = [costs.threads, len(costs.levels), costs.loop_rate, costs.product_rate,
                            costs.panel, costs.store, *costs.templates.values()]
    for level in costs.levels:
        numbers += [level.size, level.thread, level.total]
    if (min(numbers) <= 0 or min(costs.launch, costs.pack, costs.ahead) < 0
            or not 0 <= costs.overlap <= 1 or len(costs.product_half) != 3):
        raise ArgumentError(f"cost profile {source}: threads, rates, sizes, panel and templates "
                            f"are above 0, overlap is 0 to 1, there is at least one level, and "
                            f"product_half has three numbers")
    return costs
