"""The CPU backend: C for vectors, compiled at run time."""
