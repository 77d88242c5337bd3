"""The built-in rule sets, as data; README.md says how to write one."""
