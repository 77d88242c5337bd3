"""The fact providers that every stack has."""

from __future__ import annotations

from tegg.rewrite.providers import Provider
from tegg.rewrite.providers.attentions import Averages, KeptAxes
from tegg.rewrite.providers.concats import Concats
from tegg.rewrite.providers.constants import Constants
from tegg.rewrite.providers.contractions import Contractions
from tegg.rewrite.providers.dims import Dims
from tegg.rewrite.providers.dtypes import DTypes
from tegg.rewrite.providers.lookups import Lookups
from tegg.rewrite.providers.permutations import Permutations
from tegg.rewrite.providers.ranges import RangeFacts

BUILTIN: tuple[Provider, ...] = (DTypes(), Permutations(), Dims(), Constants(), Concats(),
                                 Contractions(), Averages(), KeptAxes(), RangeFacts(), Lookups())
