"""Module: parameters and modules by name, calls with a scope, strict state dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from tegg.dtype import dtype as as_dtype
from tegg.errors import ArgumentError, DTypeError, WeightsError
from tegg.ir.graph import Graph, current_graph
from tegg.locks import WEIGHTS
from tegg.nn.parameter import Buffer, Parameter, replace
from tegg.ops.value import Value
from tegg.shape import show

Children = Iterator[tuple[str, Any]]


class Module:
    """A layer or model: attributes that are Parameters, Modules, or lists and dicts of them.

    Write ``forward``; calling the module opens a scope of its name in the graph, so that displays
    and profiles are grouped by it. ``training`` is False until ``train()``: what is compiled
    infers, and layers that would behave otherwise in training say so.
    """

    training: bool = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise ArgumentError(f"{type(self).__name__} has no forward; define forward(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = _graph_of(args, kwargs)
        if graph is None:
            return self.forward(*args, **kwargs)  # its first op says what is missing
        with graph.recording(), graph.scope(self._place(graph)):
            return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(vars(self).get(name), Parameter) and not (
                value is None or isinstance(value, Parameter)):
            raise ArgumentError(f"{type(self).__name__}: {name} is a Parameter; to change its "
                                f"array write .{name}.data = ...")
        object.__setattr__(self, name, value)

    def _place(self, graph: Graph) -> str:
        """Its path below the open scope. The outermost call names all that is inside it."""
        if id(self) not in graph.module_paths:
            graph.kept.append(self)
            graph.module_paths.update((id(m), path) for path, m in self.named_modules())
            graph.weight_names.update((id(p), name) for name, p in self._named_values())
        path = graph.module_paths[id(self)]
        return path.removeprefix(f"{graph.path}.") if path != graph.path else ""

    # ---- what is inside
    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module (by ``prefix``) and all inside it, each once, with dotted paths."""
        seen: set[int] = set()
        for path, m in _walk(prefix, self):
            if isinstance(m, Module) and id(m) not in seen:
                seen.add(id(m))
                yield path, m

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names, each once, by its first name; no buffers."""
        return ((path, p) for path, p in self._named_values() if not isinstance(p, Buffer))

    def _named_values(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters and buffers, each once, by its first name."""
        seen: set[int] = set()
        for path, p in self._all_parameters():
            if id(p) not in seen:
                seen.add(id(p))
                yield path, p

    def _all_parameters(self) -> Iterator[tuple[str, Parameter]]:
        return ((path, p) for path, p in _walk("", self) if isinstance(p, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """Parameters, each once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Buffers with dotted names, each once, by its first name."""
        return ((path, p) for path, p in self._named_values() if isinstance(p, Buffer))

    def buffers(self) -> Iterator[Buffer]:
        """Buffers, each once: arrays that are kept with the parameters and not learned."""
        return (b for _, b in self.named_buffers())

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` on this module and all inside it; returns the module. What was traced
        before is not traced again."""
        for _, m in self.named_modules():
            m.training = mode
        return self

    def eval(self) -> Self:
        """``train(False)``"""
        return self.train(False)

    # ---- weights in and out
    def state_dict(self) -> dict[str, np.ndarray]:
        """The array of every parameter and buffer by name; a shared one stands under each of its
        names."""
        with WEIGHTS:
            return {name: p.data for name, p in self._all_parameters()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Replace parameters by arrays of the same names; floats are cast to the parameter's dtype,
        arrays of its own dtype are kept by reference. Modules that know other layouts of their
        weights (``adapt_state``) take those as well.

        Raises WeightsError that lists missing and unexpected names (not where ``strict`` is False)
        and arrays of a wrong shape or kind; then nothing was loaded. All are replaced at once: a
        compiled program that runs meanwhile in another thread sees the old weights or the new.
        """
        if not isinstance(state, Mapping):
            raise WeightsError(f"{type(self).__name__}: a state dict maps names to arrays; this is "
                               f"a {type(state).__name__}")
        parameters = dict(self._all_parameters())
        state = self._adapted(state)
        wrong = _differences(parameters, state) if strict else []
        arrays = {name: np.asarray(state[name]) for name in parameters if name in state}
        wrong += [f"{name} is {show(a.shape)}, not {show(parameters[name].shape)}"
                  for name, a in arrays.items() if a.shape != parameters[name].shape]
        wrong += [f"{name} is {a.dtype}, not {parameters[name].dtype.name}"
                  for name, a in arrays.items() if _kind(a) != parameters[name].dtype.kind]
        if wrong:
            raise WeightsError(f"{type(self).__name__}: the state dict does not fit, and nothing "
                               f"was loaded: {'; '.join(wrong)}")
        ready = {name: a.astype(parameters[name].dtype.numpy, copy=False)
                 for name, a in arrays.items()}
        replace((parameters[name], a) for name, a in ready.items())

    def _adapted(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state under the names of these modules."""
        adapting = [(f"{path}." if path else "", m) for path, m in _walk("", self)
                    if isinstance(m, Module) and type(m).adapt_state is not Module.adapt_state]
        if adapting:
            state = dict(state)
            for prefix, m in adapting:
                m.adapt_state(state, prefix)
        return state

    def adapt_state(self, state: dict[str, Any], prefix: str) -> None:
        """Change in place a state dict of another layout, whose names of this module begin with
        ``prefix``, into this module's. The layout is this module's own by default."""

    def __repr__(self) -> str:
        inner = [f"  {name}: {_indented(repr(v))}" for name, v in _children(self)
                 if isinstance(v, (Module, list, dict))]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + "".join(f"\n{line}" for line in inner) + ("\n)" if inner else ")")

    def extra_repr(self) -> str:
        """What its repr says of it, such as sizes."""
        return ""


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _children(x: Any) -> Children:
    if isinstance(x, Module):
        yield from vars(x).items()
    elif isinstance(x, (list, tuple)):
        yield from ((str(i), v) for i, v in enumerate(x))
    elif isinstance(x, dict):
        yield from ((str(k), v) for k, v in x.items())


def _walk(path: str, x: Any) -> Iterator[tuple[str, Any]]:
    """Everything below ``x`` with its path: modules and parameters in the order of attributes."""
    if isinstance(x, (Module, Parameter)):
        yield path, x
    if isinstance(x, (Module, list, tuple, dict)):
        for name, child in _children(x):
            if isinstance(child, (Module, Parameter, list, tuple, dict)):
                yield from _walk(f"{path}.{name}" if path else name, child)


def _kind(a: np.ndarray) -> str:
    """The kind of dtype, or nothing where tegg has no such dtype."""
    try:
        return as_dtype(a.dtype).kind
    except DTypeError:
        return ""


def _differences(parameters: Mapping[str, Parameter], state: Mapping[str, Any]) -> list[str]:
    missing = [n for n in parameters if n not in state]
    unexpected = [n for n in state if n not in parameters]
    return ([f"missing {', '.join(missing)}"] if missing else []) + (
        [f"unexpected {', '.join(unexpected)}"] if unexpected else [])


def _graph_of(args: tuple, kwargs: Mapping[str, Any]) -> Graph | None:
    """The graph of the first tensor among the arguments, or the one that is being recorded."""
    todo = [*args, *kwargs.values()]
    while todo:
        v = todo.pop(0)
        if isinstance(v, Value) and v.owner() is not None:
            return v.owner()
        if isinstance(v, (list, tuple)):
            todo[:0] = v
        elif isinstance(v, dict):
            todo[:0] = v.values()
    return current_graph()
