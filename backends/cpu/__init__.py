"""The CPU backend: kernels printed as C, compiled by the compiler at hand, run by a thread pool."""
