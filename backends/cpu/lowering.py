"""From a fragment to a kernel in C: by a template where it has products, by loops elsewhere."""

from __future__ import annotations

from dataclasses import replace

from tegg.backends.cown import own_code, with_functions
from tegg.ir.classes import Fragment
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower

from .attention import lower_attention
from .attention_forms import blocks_of
from .contraction import lower_contraction
from .direct import lower_direct
from .direct_templates import direct_of
from .emit import C
from .loop_forms import loops_row
from .templates import tile_of
from .winograd import lower_winograd
from .winograd_forms import tiles_of


def lower_fragment(fragment: Fragment, name: str, constant: frozenset[int],
                   language: C) -> KernelCode:
    """The kernel of a fragment. Raises LoweringError where no form of it is known."""
    graph, outputs = fragment.graph, fragment.outputs
    own = own_code(graph.table)
    if own:
        language = replace(language, own=own)
    first = fragment.anchors[-1] if fragment.anchors else None
    if first is None or first.op is loops_row():
        made = lower(graph, outputs, name, language, half=language.half,
                     bytes=language.bytes)
    elif first.op.kind == "attention":
        made = lower_attention(graph, outputs, fragment.anchors, name, language,
                               blocks_of(first.attrs))
    elif (direct := direct_of(first.op, first.attrs, language.width)) is not None:
        made = lower_direct(graph, outputs, fragment.anchors, name, language, direct)
    elif first.op.name == "CpuWinograd":
        made = lower_winograd(graph, outputs, fragment.anchors, name, language,
                              tiles_of(first.attrs, language.width))
    else:
        made = lower_contraction(graph, outputs, fragment.anchors, name, language,
                                 tile_of(first.op, first.attrs), constant)
    return replace(made, source=with_functions(made.source, graph, own)) if own else made
