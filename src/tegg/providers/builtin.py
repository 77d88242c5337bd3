"""The fact providers that every stack has."""

from __future__ import annotations

from tegg.providers import Provider
from tegg.providers.concats import Concats
from tegg.providers.constants import Constants
from tegg.providers.contractions import Contractions
from tegg.providers.dims import Dims
from tegg.providers.dtypes import DTypes
from tegg.providers.permutations import Permutations

BUILTIN: tuple[Provider, ...] = (DTypes(), Permutations(), Dims(), Constants(), Concats(),
                                 Contractions())
