"""From a cover to a plan: memory, lowered kernels, calls."""
