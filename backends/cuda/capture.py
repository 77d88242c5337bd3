"""Products of the library as graphs: what a call starts is taken down, and nothing runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p

from tegg.errors import BackendError

from .cublas import Cublas, Product
from .libcuda import Libcuda, Refused

# CU_STREAM_CAPTURE_MODE_RELAXED: Python may free memory of the device whenever it likes, and other
# threads may do what they do. In the stricter modes that would void what is taken down.
_RELAXED = 2


class Recorder:
    """Takes down products for graphs that one stream starts.

    They use that stream's workspace, which lives as long as this: what follows one another on a
    stream may share it. ``through``: a stream of its own on which nothing runs, since the default
    one cannot be captured.
    """

    def __init__(self, driver: Libcuda, blas: Cublas, stream: int, through: int) -> None:
        self.stream = stream
        self._driver, self._blas, self._through = driver, blas, through
        self._space = blas.workspace(stream)

    @contextmanager
    def graph(self, p: Product) -> Iterator[int]:
        """A graph of what the library starts for a product, while the context lasts.

        Raises BackendError where the library cannot be captured.
        """
        self._blas.on(self._through, self._space)  # before: a capture allows no new workspace
        self._driver.cuStreamBeginCapture_v2(self._through, _RELAXED)
        try:
            self._blas.put(p)
        except BackendError as e:
            with contextlib.suppress(Refused):  # what was taken down is void
                self._destroy(self._end())
            raise BackendError(f"{e}, or start kernels one by one with tegg.Cuda(graph=False)"
                               ) from None
        made = self._end()
        try:
            yield made
        finally:
            self._destroy(made)

    def _end(self) -> int:
        out = c_void_p()
        self._driver.cuStreamEndCapture(self._through, byref(out))
        return out.value or 0

    def _destroy(self, graph: int) -> None:
        if graph:
            self._driver.cuGraphDestroy(graph)
