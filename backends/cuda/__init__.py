"""NVIDIA GPUs: CUDA C, and the runtime over NVIDIA's driver. See ``docs/cuda.md``."""

from .streams import stream

__all__ = ["stream"]
