"""NVIDIA GPUs: kernels in CUDA C, run through PyCUDA."""
