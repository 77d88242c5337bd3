"""Apple GPUs: kernels in the Metal Shading Language, run through metalcompute."""
