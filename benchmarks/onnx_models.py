"""Models in ONNX Runtime: what PyTorch exports of a function of tensors."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OPSET = 17


def session(torch: Any, fn: Callable[..., Any], tensors: Sequence[Any],
            threads: int) -> tuple[Callable[[], np.ndarray], float]:
    """A function's result for tensors by ONNX Runtime, its weights constants of the graph; and the
    seconds that the session and its first run take, without the export.

    Raises ImportError where ``onnx`` or ``onnxruntime`` is missing.
    """
    import onnx  # noqa: F401  the exporter's
    import onnxruntime as ort

    class Module(torch.nn.Module):
        def forward(self, *xs: Any) -> Any:
            return fn(*xs)

    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        path = str(Path(folder) / "model.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # traced sizes are meant, and this exporter is the one
            torch.onnx.export(Module().eval(), tuple(tensors), path, opset_version=OPSET,
                              dynamo=False)  # that needs no further package
        start = time.perf_counter()
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        made = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {i.name: t.numpy() for i, t in zip(made.get_inputs(), tensors, strict=True)}

    def run() -> np.ndarray:
        return made.run(None, given)[0]

    run()
    return run, time.perf_counter() - start
