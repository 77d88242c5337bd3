"""An Apple GPU as a target: which ops it lowers, what they cost, and plans as loaded programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import PLAIN, attention_row, blocks_of
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.rows import RowForms, lower_rows, rows_of, rows_row
from tegg.backends.simt.templates import Forms, templates, tile_of
from tegg.dtype import DType
from tegg.errors import BackendError, LoweringError
from tegg.extract.cost import Costs
from tegg.ir.classes import Fragment
from tegg.ir.op import PRODUCTS, Op
from tegg.ir.template import OWN
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS
from tegg.planning.plan import Plan
from tegg.rewrite.providers.multiplying import Attending

from .attention_matrices import AttentionMatrices, MetalAttention
from .chips import CHIPS, chip_of, costs_of
from .direct import open_direct
from .driver import Gpu, open_device, prelude
from .emit import DIRECT, NO_F64, PACKAGE, Msl
from .matrices import MatrixForms, MatrixSums, matrix_row, matrix_tile
from .program import WIDEST, Loaded


class Metal:
    """Kernels in MSL for a chip, by its name: ``M2 Pro``; in 2.3 for metalcompute, else in 3.1,
    which multiplies matrices of halves into sums of float32.

    Planning needs no GPU; building a plan opens the default one, by metalcompute or past it
    (``through``: see ``tegg.Metal``).
    """

    name = "metal"
    begins = WIDEST

    def __init__(self, chip: str, through: str = "metalcompute") -> None:
        self.chip, self.through = chip, through
        self.language = (Msl(version=DIRECT, bound=True) if through == "metal" else
                         Msl(version=PACKAGE))
        mixed = self.language.mixed
        self.rules = ("lower.metal", *("lower.metalhalf",) * mixed)
        self.features = frozenset({f"family={chip_of(chip).family.removeprefix('apple')}"})
        self.ops = (*templates("Metal"), matrix_row(), rows_row("Metal"), attention_row("Metal"))
        self.providers = (Forms("metal"), MatrixForms(mixed), RowForms("metal"),
                          MetalAttention("metal", frozenset({"f32"}), mixed), Attending())

    def identity(self) -> str:
        return f"metal {chip_of(self.chip)} {self.through}\n{prelude()}"

    def costs(self) -> Costs:
        return costs_of(self.chip, self.through == "metal")

    @property
    def settings(self) -> Mapping[str, Any]:
        """By what the GPU is reached."""
        return {"through": self.through}

    def configured(self, settings: Mapping[str, Any]) -> Metal:
        """The target reached otherwise. Raises BackendError where it cannot be opened."""
        return Metal(opened(settings["through"]).name, **settings)

    def unsupported(self, op: Op, dtype: DType) -> str | None:
        if dtype.name == "f64":
            return NO_F64
        if op.kind in PRODUCTS and op.template is None:
            return "it is lowered as one of its templates, or as its expansion"
        if op.kind == "kernel":
            return "it is a kernel of its own, and such rows bring no code for Metal"
        if op.kind == "sort":
            return "this device has no sort; its expansion compares all pairs"
        if op.expand or op.kind != "elementwise" or op.name in (
                "Cast", "Contiguous", *self.language.native):
            return None
        return f"the Metal dialect has no spelling for {op.name}, and its row no expansion"

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        graph, outputs = fragment.graph, fragment.outputs
        if any(n.dtype.name == "f64" for n in graph.reachable(outputs)):
            raise LoweringError(NO_F64)
        if not fragment.anchors:
            return lower(graph, outputs, name, self.language, LIMITS)
        first = fragment.anchors[-1]
        if first.op.template is None:
            raise LoweringError("a sum of products has no tile here; a Contract's template has one")
        if first.op is matrix_row():
            return lower_contraction(graph, outputs, fragment.anchors, name, self.language,
                                     matrix_tile(first.attrs[OWN:]), MatrixSums)
        if first.op is rows_row("Metal"):
            return lower_rows(graph, outputs, fragment.anchors, name, self.language,
                              rows_of(first.attrs))
        if first.op is attention_row("Metal"):
            blocks = blocks_of(first.attrs)
            return lower_attention(graph, outputs, fragment.anchors, name, self.language, blocks,
                                   AttentionTiles if blocks.kind == PLAIN else AttentionMatrices)
        return lower_contraction(graph, outputs, fragment.anchors, name, self.language,
                                 tile_of(first.attrs))

    def build(self, plan: Plan) -> Loaded:
        return Loaded(plan, opened(self.through))


def opened(through: str) -> Gpu:
    """The default GPU, reached by metalcompute or by Metal's own interface."""
    return open_direct() if through == "metal" else open_device()


def target(chip: str = "") -> Metal:
    """The entry point ``tegg.backends: metal``. chip: plan for this one (``M2 Pro``) without a Mac.

    Raises BackendError where no GPU can be opened, or for a chip of no profile.
    """
    if chip and chip not in CHIPS:
        raise BackendError(f"no chip 'metal:{chip}'; there are {', '.join(CHIPS)}")
    return Metal(chip or open_device().name)
