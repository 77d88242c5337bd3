"""A compiled program with its arrays: nothing is left to look at when it is called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tegg.runtime.compiled import Compiled


class _Looking:
    """A run of a program on arrays that looks first whether its weights are what they were.

    run: the same without a look; arrays and memory live as long as it.
    """

    def __init__(self, program: Compiled, arrays: Sequence[Any], results: Sequence[Any],
                 sizes: Mapping[str, int], extra: tuple) -> None:
        self._program, self._extra, self._sizes = program, extra, dict(sizes)
        self._arrays, self._results = list(arrays), list(results)
        self._busy = threading.Lock()
        self._prepare()

    def _prepare(self) -> None:
        p = self._program
        key, space = p._prepared(self._arrays, self._sizes, self._results)
        keep = (space, self._arrays, self._results)
        self.run: Callable[[], None] = p._executable.bound(space.pointers, key, keep, *self._extra)
        self.space, self._generation = (space.pointers, key), space.generation

    @property
    def moved(self) -> bool:
        """Whether weights lie elsewhere since it was prepared."""
        return self._generation != self._program._spaces.generation

    def __call__(self) -> None:
        p = self._program
        if p._held.versioned and p._versions != p._held.versions() or self.moved:
            with self._busy:
                self._prepare()
        self.run()


class Bound:
    """A compiled program with its arrays. Calling it runs it on them; results are in ``outputs``.
    Calls from several threads run one after the other.

    given: what the caller sees of the results, where that is not they themselves. extra: what the
    executable takes besides (see ``Executable.bound``).
    """

    # A class whose instances have __call__ in a slot: it is the executable's own function, since a
    # method around it takes longer than a small program does.
    __slots__ = ("__call__", "__weakref__", "_looking", "outputs")
    if TYPE_CHECKING:
        def __call__(self) -> None: ...

    def __init__(self, program: Compiled, arrays: Sequence[Any], results: Sequence[Any],
                 sizes: Mapping[str, int], given: Sequence[Any] | None = None,
                 extra: tuple = ()) -> None:
        self.outputs = dict(zip((r.name for r in program.signature.results),
                                results if given is None else given))
        self._looking = _Looking(program, arrays, results, sizes, extra)
        self.__call__ = self._looking.run  # type: ignore[method-assign]
        with program._lock:  # which a refresh holds while it goes through them
            program._bounds.add(self)
        if program._held.versioned or self._looking.moved:
            self.look()

    def look(self) -> None:
        """From now on look at the weights in every call: they can be replaced, or have moved."""
        self.__call__ = self._looking  # type: ignore[method-assign]

    def timed(self, repeats: int) -> list[float] | None:
        """Seconds of each of several runs by the device's own clock, without copies of arrays of
        the host; None where it has no clock."""
        looking = self._looking
        clock = getattr(looking._program._executable, "timed", None)
        return None if clock is None else clock(*looking.space, repeats, *looking._extra)
