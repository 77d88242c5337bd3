"""From a plan to a compiled object that runs."""
