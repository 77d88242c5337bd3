"""Rules of MSL 2.3 that a C++ compiler lets through, checked on the text of kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from simt.metal_module import PLACES, Kernel, kernels, plain
from simt.simulator import SimulatorError

SPACES = ("device", "constant", "threadgroup", "thread")
_SIZE = {"float": 4, "int32_t": 4, "int": 4, "uint": 4, "int64_t": 8, "uint64_t": 8, "half": 2,
         "ushort": 2, "uint8_t": 1, "int8_t": 1, "uchar": 1, "float4": 16, "half4": 8}
_TYPES = "|".join([*_SIZE, "void", "long", "ulong", "short", "char", "bool", "T", "size_t"])
_SPACES = "|".join(rf"{s}\s+" for s in ("const", *SPACES))
_POINTER = re.compile(rf"(?<![\w.])((?:{_SPACES})*)"
                      rf"({_TYPES})\s*\*(?!\s*[=<>])\s*(const\b)?")
_FORBIDDEN = {
    r"\bdouble\b": "double is no type of MSL", r"\blong\s+long\b": "long long is no type of MSL",
    r"\bbfloat\d?\b": "bfloat is no type of MSL 2.3", r"\batomic_float\b": "atomic_float is no type of MSL 2.3",
    r"\d(?:ll|LL|ull|ULL)\b": "a literal of long long", r"\bgoto\b": "goto", r"\bvirtual\b": "virtual functions",
    r"\b(?:new|delete|throw|try|catch|typeid|dynamic_cast)\b": "what needs a C++ run time",
    r"\[\s*[&=]?\s*\]\s*\(": "lambdas", r"\(\s*\*\s*\w+\s*\)\s*\(": "pointers to functions",
    r"\bthread_local\b": "thread_local", r"\basm\b": "assembly", r"\bstd::": "the C++ library",
    r"#\s*include\s*<(?!metal_)": "includes of other than Metal's headers",
    r"(?<!\w)\d+\.\d*(?:e[+-]?\d+)?(?![\d.fhe]|\.?\w)": "a literal of double",
}
_VARIABLE = re.compile(r"(?:static\s+)?(?:const\s+)?\w+\s+\w+(?:\[\d*\])?\s*=")
_OPENED, _BRACE = re.compile(r"\bkernel\s+void\s+(\w+)\s*\([^{]*\)\s*\{"), re.compile("[{}]")
_FUNCTION = re.compile(r"^(?!#)[\w\s\[\]():,*&]*?\b(?!if\b|while\b|switch\b)(\w+)\s*\(([^;{}]*)\)\s*\{", re.MULTILINE)


def _expanded(source: str) -> str:
    """The text without comments, and with continued lines joined."""
    return re.sub(r"\\\n", " ", plain(source))


def broken_rules(source: str) -> list[str]:
    """What is wrong with a text, rule by rule; nothing where it keeps all of them."""
    text = _expanded(source)
    try:
        heads = kernels(source)
    except SimulatorError as e:
        return [str(e)]
    found = [f"program_source: error: {why}: {m.group(0).strip()}"
             for pattern, why in _FORBIDDEN.items() for m in re.finditer(pattern, text)]
    found += [f"program_source: error: pointer without an address space: {m.group(0).strip()}"
              for m in _POINTER.finditer(text) if not any(s in m.group(1).split() for s in SPACES)]
    for k in heads:
        found += _head(k)
        body = bodies(source)[k.name]
        if threadgroup_bytes(source, k.name) > 32768:
            found.append(f"{k.name}: more than 32 KB of threadgroup memory")
        found += [f"{k.name}: threadgroup memory in an inner block: {line.strip()}"
                  for line, depth in _depths(body)
                  if depth > 1 and re.match(r"\s*(?:SHARED|threadgroup)\s+\w", line)]
        if re.search(rf"\b{k.name}\s*\(", body[1:]):
            found.append(f"{k.name}: calls itself")
    found += [f"{name}: recursion" for name in _recursive(text)]
    found += _constants(text)
    return found


def _head(k: Kernel) -> Iterator[str]:
    """A kernel's parameters and limit."""
    if k.threads is None:
        yield f"{k.name}: states no max_total_threads_per_threadgroup"
    elif not 32 <= k.threads <= 1024 or k.threads % 32:
        yield f"{k.name}: {k.threads} threads in a threadgroup"
    if sorted(k.buffers) != list(range(len(k.buffers))):
        yield f"{k.name}: buffer indices {k.buffers} are not 0, 1, 2 ..., each once"
    if len(k.buffers) > 31:
        yield f"{k.name}: more than 31 buffers"
    places = [p.attribute for p in k.parameters if p.attribute != "buffer"]
    if len(set(places)) != len(places):
        yield f"{k.name}: an attribute stands twice"
    for p in k.parameters:
        if p.attribute == "buffer":
            if p.type.split()[0] not in ("device", "constant", "const"):
                yield f"{k.name}: {p.name} is in no address space"
            if not p.type.endswith(("*", "&")):
                yield f"{k.name}: buffer {p.name} is no pointer or reference"
        elif p.attribute not in PLACES:
            yield f"{k.name}: unknown attribute {p.attribute}"
        elif p.type not in ("uint", "ushort"):
            yield f"{k.name}: {p.name} [[{p.attribute}]] is of type {p.type}"


@lru_cache(maxsize=8)  # every launch asks for the memory of its kernel
def bodies(source: str) -> Mapping[str, str]:
    """What stands between the braces of each kernel of a text, and they."""
    text = _expanded(source)
    return {m[1]: text[m.end() - 1:_closed(text, m.end())] for m in _OPENED.finditer(text)}


def _closed(text: str, start: int) -> int:
    """Where the brace ends that stands open before a place, or the text."""
    depth = 1
    for m in _BRACE.finditer(text, start):
        depth += 1 if m[0] == "{" else -1
        if not depth:
            return m.end()
    return len(text)


def _depths(body: str) -> Iterator[tuple[str, int]]:
    depth = 0
    for line in body.split("\n"):
        yield line, depth
        depth += line.count("{") - line.count("}")


def threadgroup_bytes(source: str, name: str) -> int:
    """Threadgroup memory that a kernel declares."""
    total = 0
    for kind, names in re.findall(r"^\s*(?:SHARED|threadgroup)\s+(\w+)\s+([^;]*);",
                                  bodies(source)[name], re.MULTILINE):
        for one in re.split(r",(?![^\[]*\])", names):
            size = _SIZE[kind]
            for n in re.findall(r"\[(\d+)\]", one):
                size *= int(n)
            total += size
    return total


def _recursive(text: str) -> list[str]:
    """Functions that reach themselves. Every text is short enough to look at all pairs."""
    spots = [(m.group(1), m.end()) for m in _FUNCTION.finditer(text)
             if m.group(1) not in ("if", "for", "while", "switch")]
    calls: dict[str, set[str]] = {}
    names = {n for n, _ in spots}
    for n, at in spots:
        called = set(re.findall(r"(?<![\w:.])(\w+)\s*\(", text[at:_closed(text, at)])) & names
        calls.setdefault(n, set()).update(called)
    return [n for n, called in calls.items() if n in _reached(called, calls)]


def _reached(first: set[str], calls: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(first)
    while todo:
        c = todo.pop()
        if c not in seen:
            seen.add(c)
            todo += calls.get(c, ())
    return seen


def _constants(text: str) -> Iterator[str]:
    """Variables outside of functions are in the constant address space."""
    depth = 0
    for line in text.split("\n"):
        if depth == 0 and not line.startswith("constant") and _VARIABLE.match(line):
            yield f"program_source: error: not in the constant address space: {line.strip()}"
        depth += line.count("{") - line.count("}")
