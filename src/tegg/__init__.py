"""tegg: a pattern-rewriting tensor compiler on e-graphs."""

__version__ = "0.1.0"
