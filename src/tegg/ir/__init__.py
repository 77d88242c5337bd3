"""The program: the op table, graphs, the oracle, e-classes."""
