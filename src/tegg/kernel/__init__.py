"""Kernels: fragments lowered by index propagation to loop nests, one lowering for all devices."""
