"""Measures a GPU, and fits the profile that prices kernels on it."""
