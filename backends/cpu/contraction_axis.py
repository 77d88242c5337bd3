"""A side of a contraction: its loop variables, and their names in C."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.dim import Dim
from tegg.kernel.index import Var

_NO_LANES = Var(1, 1_000_003)  # stands for the innermost variable of a group that has none


@dataclass(frozen=True, slots=True)
class Axis:
    """The loop variables of one side (batch, m, n or k) and their names in C; outermost first."""

    letter: str
    vars: tuple[Var, ...]
    count: Dim

    @property
    def names(self) -> tuple[str, ...]:
        """One name per variable; one that is not used where there is no variable."""
        return tuple(f"{self.letter}{i}" for i in range(max(1, len(self.vars))))

    @property
    def last(self) -> Var:
        """The innermost variable, which vectors follow."""
        return self.vars[-1] if self.vars else _NO_LANES

    @property
    def extents(self) -> tuple[Dim, ...]:
        return tuple(v.extent for v in self.vars) if self.vars else (self.count,)

    @property
    def params(self) -> str:
        return "".join(f"int64_t {n}, " for n in self.names)

    @property
    def args(self) -> str:
        return "".join(f"{n}, " for n in self.names)

    def named(self) -> dict[Var, str]:
        return dict(zip(self.vars, self.names)) if self.vars else {_NO_LANES: self.names[0]}

    def of(self, flat: str, mutable: bool = False) -> str:
        """Declarations of the variables at a flat position."""
        kind = "int64_t" if mutable else "const int64_t"
        if len(self.names) == 1:
            return f"{kind} {self.names[0]} = {flat};"
        out = [f"int64_t at_{self.letter} = {flat};"]
        for name, n in reversed(list(zip(self.names, self.extents))[1:]):
            out.append(f"{kind} {name} = at_{self.letter} % {dim(n)}; "
                       f"at_{self.letter} /= {dim(n)};")
        return " ".join([*out, f"{kind} {self.names[0]} = at_{self.letter};"])

    def only_last(self, flat: str) -> str:
        """Declarations of the variables where the innermost one counts all points."""
        *outer, last = self.names
        return " ".join([*(f"const int64_t {n} = 0;" for n in outer), f"int64_t {last} = {flat};"])

    def carry(self) -> str:
        """The step from the end of the innermost variable to the next point of the others."""
        out, closing = "", ""
        for i in range(len(self.names) - 1, 0, -1):
            out += f"{self.names[i]} = 0; "
            out += (f"if (++{self.names[i - 1]} == {dim(self.extents[i - 1])}) {{ " if i > 1
                    else f"{self.names[i - 1]}++;")
            closing += " }" if i > 1 else ""
        return out + closing
