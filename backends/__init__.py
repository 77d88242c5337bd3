"""Backends: a folder each, and the printer of C-family source that they share."""
