"""An NVIDIA GPU as a target: which ops it lowers, what they cost, and plans as loaded programs."""

from __future__ import annotations

import re
from dataclasses import replace
from collections.abc import Callable, Mapping
from typing import Any

from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import PLAIN, attention_row, blocks_of
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.rows import RowForms, lower_rows, rows_of, rows_row
from tegg.backends.simt.templates import Forms, templates, tile_of
from tegg.dtype import DType
from tegg.errors import BackendError, LoweringError
from tegg.extract.cost import Costs, load_costs
from tegg.extract.profile import Profile, chosen_costs, measured_costs
from tegg.ir.classes import Fragment
from tegg.ir.op import PRODUCTS, Op
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS
from tegg.planning.plan import Plan
from tegg.rewrite.providers.multiplying import Attending

from .arrays import WIDEST
from .attention_mma import AttentionCores, CudaAttention
from .attention_turns import AttentionTurns
from .attention_wgmma import AttentionGroups
from .blas import lower_blas
from .blas_forms import BlasForms, blas_row, kind_of
from .copies import copies, copy_rows, lower_copy
from .driver import OLDEST, open_device
from .emit import CudaC, cuda_c
from .keeping import keeping_of
from .mma import lower_mma
from .mma_forms import MmaForms, mma_row, mma_tile_of
from .program import Loaded, prelude
from .wgmma import lower_wgmma
from .wgmma_forms import ARCHITECTURE as WGMMA
from .wgmma_forms import ATTENTION, TURNS
from .wgmma_forms import NAME as ROW
from .wgmma_forms import (
    WgmmaAttention, WgmmaForms, turns_row, wgmma_attention_row, wgmma_row, wgmma_tile_of)

_PROFILES = (90,)  # architectures with a cost profile of their own


class Cuda:
    """Kernels in CUDA C for compute capability ``architecture / 10``.

    Planning needs no GPU; building a plan opens the one of this number. results, graph, blas: see
    ``tegg.Cuda``. model: the GPU's name, by which its measured costs are found. wgmma: offer
    products of four warps at once though no profile says what they take, so as to measure them.
    """

    name = "cuda"
    begins = WIDEST

    def __init__(self, architecture: int, number: int = 0, results: str = "numpy",
                 graph: bool = True, model: str = "", blas: bool = False,
                 wgmma: bool = False) -> None:
        self.architecture, self.number, self.model = architecture, number, model
        self.results, self.graph, self.blas, self.wgmma = results, graph, blas, wgmma
        self.language, self._language = cuda_c(architecture), None
        self.features = frozenset({f"sm={architecture}"})
        self.ops: tuple[Op, ...] = (*templates("Cuda"), mma_row(), rows_row("Cuda"),
                                    attention_row("Cuda"), *copy_rows())
        self.providers: tuple[Any, ...] = (
            Forms("cuda"), MmaForms(architecture), RowForms("cuda"),
            CudaAttention("cuda", frozenset({"f32", "f64"}), architecture), Attending())
        self.rules: tuple[str, ...] = ("lower.copies", "lower.cuda", "lower.tensorcore")
        if architecture == WGMMA:
            self.rules += ("lower.wgmma",)
            self.ops += (wgmma_row(), wgmma_attention_row(), turns_row())
            f32 = frozenset({"f32"})
            self.providers += (WgmmaForms(self.offers_wgmma),
                               WgmmaAttention("cuda-wgmma", f32, self.offers_wgmma_attention),
                               WgmmaAttention("cuda-turns", f32, self.offers_turns))
        if blas:
            self.rules += ("lower.cublas",)
            self.ops += (blas_row(),)
            self.providers += (BlasForms(architecture),)
        self.copies = copies(results == "numpy")

    def identity(self) -> str:
        return f"cuda {self.architecture} {self.results} {self.blas} {self.wgmma}\n{prelude()}"

    def offers_wgmma(self) -> bool:
        """Whether products may be made by four warps at once: where that has a measured price."""
        return self.wgmma or ROW in self.costs().templates

    def offers_wgmma_attention(self) -> bool:
        """Whether attention may be, likewise."""
        return self.wgmma or ATTENTION in self.costs().templates

    def offers_turns(self) -> bool:
        """Whether its groups may take turns, likewise."""
        return self.wgmma or TURNS in self.costs().templates

    def complete(self) -> Cuda:
        """With all forms, priced or not."""
        return Cuda(self.architecture, self.number, self.results, self.graph, self.model,
                    self.blas, wgmma=True)

    def costs(self) -> Costs:
        """``TEGG_COSTS``, what was measured on a GPU of this model, or what is shipped."""
        chosen = chosen_costs(self.name)
        if chosen is not None:
            return chosen
        found = measured_costs(self.name, self.machine()) if self.model else None
        return load_costs(self.shipped()) if found is None else found

    def shipped(self) -> str:
        """The name of the profile that is shipped for the architecture."""
        known = self.architecture in _PROFILES
        return f"cuda/sm_{self.architecture}" if known else "cuda/generic"

    def machine(self) -> str:
        """The GPU, in words: what its measured profile is kept by."""
        return f"{self.model or open_device(self.number).name}, sm_{self.architecture}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Which GPU, what results are, how kernels are started, whether by cuBLAS too."""
        return {"number": self.number, "results": self.results, "graph": self.graph,
                "blas": self.blas}

    def configured(self, settings: Mapping[str, Any]) -> Cuda:
        """The target with other settings. Raises BackendError where there is no such GPU."""
        device = open_device(settings["number"])
        return Cuda(device.architecture, model=device.name, **settings)

    def tune(self, quick: bool = False, step: Callable[[str], None] = lambda name: None) -> Profile:
        """Measure the GPU. ``step`` is told what has been done, ``tune_steps`` times."""
        from .tune.measure import tune
        return tune(self, quick, step)

    def tune_steps(self, quick: bool = False) -> int:
        """How many steps ``tune`` tells of."""
        from .tune.measure import steps
        return steps(quick)

    def unsupported(self, op: Op, dtype: DType) -> str | None:
        if op.kind in PRODUCTS and op.template is None:
            return "it is lowered as one of its templates, or as its expansion"
        if op.kind == "kernel":
            return "it is a kernel of its own, and such rows bring no code for CUDA"
        if op.kind == "sort":
            return "this device has no sort; its expansion compares all pairs"
        if op.expand or op.kind != "elementwise" or op.name in (
                "Cast", "Contiguous", *self.language.native):
            return None
        return f"CUDA C has no spelling for {op.name}, and its row no expansion"

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        graph, outputs = fragment.graph, fragment.outputs
        if outputs[0].op.kind == "copy":
            return lower_copy(name, outputs[0].op)
        if not fragment.anchors:
            return lower(graph, outputs, name, self.priced, LIMITS)
        first = fragment.anchors[-1]
        if first.op.template is None:
            raise LoweringError("a sum of products has no tile here; a Contract's template has one")
        if first.op is blas_row():
            return lower_blas(graph, outputs, fragment.anchors, name, self.language,
                              kind_of(first.attrs), self.architecture)
        if first.op is wgmma_row():
            return lower_wgmma(graph, outputs, fragment.anchors, name, self.language,
                               wgmma_tile_of(first.attrs))
        if first.op is mma_row():
            return lower_mma(graph, outputs, fragment.anchors, name, self.language,
                             mma_tile_of(first.attrs))
        if first.op is attention_row("Cuda"):
            blocks = blocks_of(first.attrs)
            return lower_attention(graph, outputs, fragment.anchors, name, self.language, blocks,
                                   AttentionTiles if blocks.kind == PLAIN else AttentionCores)
        if first.op is wgmma_attention_row():
            return lower_attention(graph, outputs, fragment.anchors, name, self.language,
                                   blocks_of(first.attrs), AttentionGroups)
        if first.op is turns_row():
            return lower_attention(graph, outputs, fragment.anchors, name, self.language,
                                   blocks_of(first.attrs), AttentionTurns)
        if first.op is rows_row("Cuda"):
            return lower_rows(graph, outputs, fragment.anchors, name, self.language,
                              rows_of(first.attrs))
        return lower_contraction(graph, outputs, fragment.anchors, name, self.language,
                                 tile_of(first.attrs))

    @property
    def priced(self) -> CudaC:
        """The dialect, with prices of where rows stay."""
        if self._language is None:
            self._language = replace(self.language, keeping=keeping_of(self.architecture,
                                                                       self.costs()))
        return self._language

    def build(self, plan: Plan) -> Loaded:
        device = open_device(self.number)
        if device.architecture < self.architecture:
            raise BackendError(f"the program was compiled for compute capability "
                               f"{self.architecture / 10}, and {device.name} has "
                               f"{device.architecture / 10}; leave architecture= out")
        return Loaded(plan, device, self.results, self.graph)


def target(which: str = "") -> Cuda:
    """The entry point ``tegg.backends: cuda``. which: the number of a GPU, the first by default; or
    ``sm_90``, to plan for GPUs of that compute capability without one.

    Raises BackendError where the GPU cannot be opened, or for another text.
    """
    planned = re.fullmatch(r"sm_(\d{2,3})", which)
    if planned and int(planned[1]) >= OLDEST:
        return Cuda(int(planned[1]))
    if which and not which.isdecimal():
        raise BackendError(f"no GPU 'cuda:{which}': write 'cuda', 'cuda:1' for the second GPU, or "
                           f"'cuda:sm_90' to plan for a compute capability, from "
                           f"{OLDEST // 10}.{OLDEST % 10} on")
    number = int(which or 0)
    device = open_device(number)
    return Cuda(device.architecture, number, model=device.name)
