"""Explanations: why a program became what it is, and why a rule did not fire."""
