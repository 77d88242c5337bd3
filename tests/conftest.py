"""Hypothesis profiles: short by default, long with ``--hypothesis-profile=long``. Costs are those
that are shipped: what was measured on a machine would choose other kernels than golden files have.
"""

import os

from hypothesis import settings

os.environ.setdefault("TEGG_COSTS", "cpu/generic")

settings.register_profile("short", deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=500)
settings.load_profile("short")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
