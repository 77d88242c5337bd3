"""Backends: one folder per device, found by entry point; nothing in the core names one."""
