"""The price of a kernel in seconds, from what it executes and a device's profile (a TOML file)."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from tegg.dtype import DTYPES, DType
from tegg.errors import ArgumentError
from tegg.ir.demand import Demand, Product


MEASURED = "measured"  # the table of a profile that says where and when it was measured
_SERIAL = 2e-6  # seconds: what is predicted to take less is done before other threads hear of it


@dataclass(frozen=True, slots=True)
class Level:
    """Where a buffer lies that takes up to ``size`` bytes: bytes a second of one thread, of all;
    ``store`` as that of the profile, where it is known for this level."""

    size: float
    thread: float
    total: float
    store: float | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """A device as extraction sees it. Rates are per second and thread; see docs of each field.

    launch: seconds to start a stage of a kernel and wait for all its threads; call: the same
      where one thread runs it, which is done where it is sooner; ``launch`` if it is not given.
    overlap: share of the shorter of memory and compute time that hides behind the longer one; a
      plain roofline (1.0) cannot tell a kernel that saves bytes under a product from one that
      does not. overlap_products: the same in kernels with products, whose arithmetic reads ahead
      of itself; ``overlap`` if it is not given.
    levels: caches and memory, nearest first; the last one takes everything.
    store: times that a written byte costs a read one (a line is read before it is written).
    loop_rate: weighted scalar operations of generated loops; ``ops`` overrides the op table's
      weights, ``loop_dtypes`` multiplies the time per dtype.
    load: operations that a load from cache counts as. keep: operations from which a value that
      several passes over a row want is kept in a scratch row. close: operations that a result of
      a reduction along rows counts as beside its elements: adding up lanes, waiting for the sum.
      gather: operations that an element counts as which is read from any place of its row.
    product_rate: floating-point operations of a large product; each extent e is slowed by
      ``e / (e + half)``, but those that a template counts itself. panel: extent after which a
      packed operand is packed again, or the next tile evaluates it again. pack: operations that
      copying an element to a panel counts as. ahead: the share of packing ahead that a run pays
      for; ahead_far: of panels that no cache holds, a second copy of which has to earn its memory
      too. fresh: bytes a second at which the system gives memory that panels then keep.
      ``templates`` multiplies the time of products per template (its op's name),
      ``template_reads`` that of reading their operands where they lie.
    apart: reductions that the kernel of a product needs are stages of their own before it, which
      read what they reduce from memory.
    latency: seconds until what is read from memory is there. own_rate: bytes a second that a
      multiprocessor moves to and from memory of its blocks. Lowering decides by both where rows
      stay between passes over them.
    copy_rate: bytes a second between the host's memory and the device's, where they are two;
      copy: seconds to start a copy.
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
    overlap_products: float | None = None
    pack: float = 5.0
    ahead: float = 0.01
    ahead_far: float = 0.01
    fresh: float = math.inf
    close: float = 0.0
    gather: float = 0.0
    call: float | None = None
    apart: bool = False
    copy: float = 0.0
    copy_rate: float = math.inf
    latency: float = 0.0
    own_rate: float = math.inf
    ops: Mapping[str, float] = field(default_factory=dict)
    loop_dtypes: Mapping[str, float] = field(default_factory=dict)
    product_dtypes: Mapping[str, float] = field(default_factory=dict)
    templates: Mapping[str, float] = field(default_factory=dict)
    template_reads: Mapping[str, float] = field(default_factory=dict)
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

    def with_threads(self, threads: int) -> Costs:
        """The same device, where so many threads run."""
        return replace(self, threads=threads)

    def seconds(self, work: Demand, loaded: Sequence[float], stored: Sequence[float],
                resting: Sequence[float] = (), among: float = 0.0) -> float:
        """Predicted time of one kernel that reads and writes buffers of so many bytes: memory
        against compute, then its launch. ``resting``: what it reads of weights and states, which
        lie among so many bytes that every run of the program reads."""
        alone = self._seconds(work, loaded, stored, resting, among, 1)
        if self.threads == 1:
            return alone
        together = self._seconds(work, loaded, stored, resting, among, self.threads)
        return together if self.call is None else min(alone, together)

    def _seconds(self, work: Demand, loaded: Sequence[float], stored: Sequence[float],
                 resting: Sequence[float], among: float, most: int) -> float:
        """The same with at most so many threads."""
        threads = min(most, max(1, work.rows)) if work.rows is not None else most
        memory = sum([self.memory(b, threads) for b in loaded])
        memory += sum([self.memory(b, threads, among) for b in resting])
        compute = sum([operations * self.loop_dtypes.get(dtype.name, 1.0)
                       for dtype, operations in work.loops]) / self.loop_rate / threads
        stages, overlap, products = 1 + work.splits, self.overlap, work.products
        if products:
            memory *= max([self._reading(p) for p in products])
            # what a kernel does beside products may be shared by more threads than their tiles are
            tiles = sum([p.execution.pieces if p.execution else threads for p in products])
            compute += sum([self.product(p) for p in products]) / max(1, min(threads, tiles))
            memory += sum([self.copies(p, threads) + self.panels(p, threads, among)
                           for p in products])
            stages += max([self.stages(p) for p in products])
            if self.overlap_products is not None:
                overlap = self.overlap_products
        memory += sum([self.written(b, threads) for b in stored])
        longer, shorter = max(memory, compute), min(memory, compute)
        start = self.launch if most > 1 or self.call is None else self.call
        return longer + (1.0 - overlap) * shorter + start * stages

    @property
    def start(self) -> float:
        """The least that a stage costs."""
        return self.launch if self.call is None else self.call

    @property
    def serial(self) -> float:
        """A kernel whose predicted seconds are fewer is done sooner by one thread."""
        if self.call is None or self.threads == 1:
            return _SERIAL
        return self.launch * self.threads / (self.threads - 1)

    def memory(self, size: float, threads: int, among: float = 0.0) -> float:
        """Seconds to read a buffer of ``size`` bytes from where it lies since it was written, or
        since ``among`` bytes were read with it.

        Each buffer is judged by itself: were it by what the kernel touches in all, two kernels
        would seem cheaper than one that does the work of both. Weights and states are judged by
        all of them that a run reads: that is as much in any plan.
        """
        level = self._level(max(size, among))
        return size / min(level.thread * threads, level.total)

    def written(self, size: float, threads: int) -> float:
        """Seconds to write a buffer of ``size`` bytes."""
        own = self._level(size).store
        return self.memory(size, threads) * (self.store if own is None else own)

    def _level(self, size: float) -> Level:
        for level in self.levels:
            if size <= level.size:
                return level
        return self.levels[-1]

    def copied(self, size: float) -> float:
        """Seconds to copy ``size`` bytes between the host and the device."""
        return self.copy + size / self.copy_rate

    def product(self, p: Product) -> float:
        """Seconds of a contraction's arithmetic on one thread, the copying of panels included."""
        e, done = p.extents, p.execution
        rate = self.product_rate / self.product_dtypes.get(e.dtype.name, 1.0)
        slow = 1.0
        for extent, half in zip((e.k,) if done else (e.k, e.m, e.n), self._halves):
            slow *= (extent + half) / max(1, extent)
        if done is None:
            return e.flops * slow / rate
        factor = self.templates.get(done.rate or p.op, self.templates.get(p.op, 1.0))
        loops = done.packed * self._share(p) * self.pack + done.beside + factor * done.loops
        return (factor * done.flops * slow / (rate * done.speed)
                + loops * self.loop_dtypes.get(e.dtype.name, 1.0) / self.loop_rate)

    def _share(self, p: Product) -> float:
        """The share of packing that a run pays for: all, but for what is kept from before it."""
        done = p.execution
        if not p.ready or done is None or not done.kept:
            return 1.0
        kept = done.packed * (done.itemsize or p.extents.dtype.itemsize)
        return self.ahead_far if self._level(kept) is self.levels[-1] else self.ahead

    @property
    def _halves(self) -> tuple[float, float, float]:
        m, n, k = self.product_half
        return k, m, n

    def _reading(self, p: Product) -> float:
        """What reading its operands where they lie takes, against reading panels."""
        own = self.template_reads.get(p.op, 1.0)
        return own if p.execution is None else self.template_reads.get(p.execution.reads, own)

    def copies(self, p: Product, threads: int) -> float:
        """Seconds to write what a template sets aside, and to read it back."""
        done, size = p.execution, p.extents.dtype.itemsize
        if done is None:
            return 0.0
        def both(elements: float) -> float:
            return (self.memory(elements * size, threads)
                    + self.written(elements * size, threads))

        out = both(done.aside)
        if done.kept:
            size = done.itemsize or size
            out += self._share(p) * done.packed / done.kept * both(done.kept)
            if p.ready:
                out += self._share(p) * done.packed * size / self.fresh
        return out

    def panels(self, p: Product, threads: int, among: float = 0.0) -> float:
        """Seconds to read what was packed before the run, in place of what it was packed from."""
        done = p.execution
        if not p.ready or done is None or not done.kept:
            return 0.0
        return self.memory(done.kept * (done.itemsize or p.extents.dtype.itemsize), threads, among)

    def stages(self, p: Product) -> int:
        """How many functions of a template wait for one another, beyond the first."""
        return 0 if p.execution is None else p.execution.stages


def load_costs(source: str | Path, threads: int | None = None) -> Costs:
    """The profile of a TOML file, measured or not, or of a shipped one named ``"cpu/generic"``.

    ``threads`` overrides the profile's. Raises ArgumentError for a missing or malformed profile.
    """
    where = _locate(source)
    try:
        stamp = os.stat(where)
        return _loaded(where, str(source), threads, stamp.st_mtime_ns, stamp.st_size)
    except OSError as e:
        if str(source).endswith(".egg") or Path(source).exists():
            raise ArgumentError(_no_profile(Path(source))) from None
        raise ArgumentError(f"no cost profile {source!s}: {e}; shipped ones are named as in "
                            f"'cpu/generic'") from None


def _no_profile(path: Path) -> str:
    """Why what lies there is no profile."""
    if path.suffix == ".egg":
        why = f"is a file of rules, which compilers take: tegg.Compiler({path.name!r})"
    else:
        why = "is a folder" if path.is_dir() else "is no .toml file"
    return (f"{path} {why}; a cost profile (TEGG_COSTS) is a .toml file, such as tegg tune writes, "
            f"or the name of a shipped one, as in 'cpu/generic'")


@lru_cache(maxsize=32)
def _loaded(where: Path, source: str, threads: int | None, changed: int, size: int) -> Costs:
    """The profile of a file in one state: all compilations ask for it."""
    data = _read(where, source)
    data.pop(MEASURED, None)
    if threads is not None:
        data["threads"] = threads
    return checked_costs(data, source)


def _read(where: Path, source: str) -> dict:
    """The tables of a file, over those of the shipped profile that it names as its ``base``."""
    try:
        data = tomllib.loads(where.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ArgumentError(f"the cost profile {source!s} is not TOML: {e}") from None
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str) or base.endswith(".toml") or not _locate(base).is_file():
        raise ArgumentError(f"cost profile {source}: base is the name of a shipped profile, such "
                            f"as 'cpu/generic', not {base!r}")
    under = _read(_locate(base), base)
    return under | {k: {**under[k], **v} if isinstance(v, dict) and isinstance(under.get(k), dict)
                    else v for k, v in data.items()}


def _locate(source: str | Path) -> Path:
    if isinstance(source, str) and not source.endswith(".toml"):
        device, _, profile = source.partition("/")
        return _shipped() / device / "costs" / f"{profile or 'generic'}.toml"
    return Path(source)


@cache
def _shipped() -> Path:
    """The folder of the devices."""
    return Path(str(files("tegg.backends")))


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]
    if math.isnan(number):
        raise ValueError("nan is no number to compare with")
    return number


def checked_costs(data: dict, source: str) -> Costs:
    """The costs of a profile's tables: every number there, of its kind and positive, and nothing
    that is not known. Raises ArgumentError."""
    known = {f.name: str(f.type) for f in fields(Costs)}
    tables = {f.name for f in fields(Costs) if f.default_factory is not MISSING}
    optional = tables | {f.name for f in fields(Costs) if f.default is not MISSING}
    wrong = sorted(set(data) - set(known)) + sorted(set(known) - set(data) - optional)
    if wrong:
        raise ArgumentError(f"cost profile {source}: {', '.join(wrong)} is unknown or missing; "
                            f"a profile has {', '.join(known)}")
    try:
        data["levels"] = tuple(Level(**{k: _number(v) for k, v in level.items()})
                               for level in data["levels"])
        data["product_half"] = tuple(map(_number, data["product_half"]))
        for name in tables & set(data):
            data[name] = {k: _number(v) for k, v in data[name].items()}
        for name, kind in known.items():
            if kind == "bool" and not isinstance(data.get(name, False), bool):
                raise TypeError(f"{name} is true or false, not {data[name]!r}")
            if kind.partition(" ")[0] in ("float", "int") and name in data:
                data[name] = int(data[name]) if kind == "int" else _number(data[name])
    except (TypeError, ValueError, AttributeError) as e:
        raise ArgumentError(f"cost profile {source}: {e}") from None
    costs = Costs(**data)
    numbers: list[float] = [costs.threads, len(costs.levels), costs.loop_rate, costs.product_rate,
                            costs.panel, costs.store, costs.fresh, costs.copy_rate,
                            costs.own_rate, *costs.templates.values(),
                            *costs.template_reads.values()]
    for level in costs.levels:
        numbers += [level.size, level.thread, level.total,
                    1.0 if level.store is None else level.store]
    shares = (costs.launch, costs.call or 0.0, costs.pack, costs.ahead, costs.ahead_far,
              costs.close, costs.gather, costs.copy, costs.latency)
    hidden = costs.overlap, costs.overlap_products or 0.0
    if (min(numbers) <= 0 or min(shares) < 0 or min(hidden) < 0 or max(hidden) > 1
            or len(costs.product_half) != 3):
        raise ArgumentError(f"cost profile {source}: threads, rates, sizes, panel and templates "
                            f"are above 0, overlaps are 0 to 1, there is at least one level, and "
                            f"product_half has three numbers")
    return costs
