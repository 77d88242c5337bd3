"""Measures this machine, and fits the profile that prices kernels on it."""
