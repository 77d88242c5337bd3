"""A compiler and a backend for tegg that live apart from it."""
