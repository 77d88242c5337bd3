"""Containers of modules: ModuleList, Sequential, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tegg.errors import ArgumentError
from tegg.nn.module import Module
from tegg.ops.value import fail


class ModuleList(Module):
    """Modules in order; its names are ``0``, ``1``, ..."""

    def __init__(self, modules: Sequence[Module] = ()) -> None:
        for i, m in enumerate(modules):
            _checked(m)
            setattr(self, str(i), m)

    def append(self, module: Module) -> None:
        """Add one at the end."""
        setattr(self, str(len(self)), _checked(module))

    def __len__(self) -> int:
        return len(_modules(self))

    def __iter__(self) -> Iterator[Module]:
        return iter(_modules(self))

    def __getitem__(self, i: int) -> Module:
        return _modules(self)[i]


def _modules(container: Module) -> list[Module]:
    """The modules that a container holds, beside its own attributes."""
    return [m for m in vars(container).values() if isinstance(m, Module)]


def _checked(module: Any) -> Module:
    if not isinstance(module, Module):
        fail(ArgumentError, f"a container holds Modules, not {module!r}")
    return module


class Sequential(ModuleList):
    """Modules that are applied one after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for m in self:
            x = m(x)
        return x


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, m in (modules or {}).items():
            self[name] = m

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(name, str) or "." in name or hasattr(type(self), name):
            fail(ArgumentError, f"ModuleDict: {name!r} cannot name a module")
        setattr(self, name, _checked(module))

    def __getitem__(self, name: str) -> Module:
        found = vars(self).get(name)
        if not isinstance(found, Module):
            fail(ArgumentError, f"ModuleDict: no module {name!r}; it has {', '.join(self)}")
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(vars(self).get(str(name)), Module)

    def __len__(self) -> int:
        return len(_modules(self))

    def __iter__(self) -> Iterator[str]:
        return (name for name, m in vars(self).items() if isinstance(m, Module))

    def items(self) -> Iterator[tuple[str, Module]]:
        """Names and modules."""
        return ((name, self[name]) for name in self)

    keys = __iter__

    def values(self) -> Iterator[Module]:
        """Modules."""
        return iter(_modules(self))
