"""Wrong MSL is refused: by the checklist of rules, and by clang's front end where it is installed."""

from __future__ import annotations

import re

import pytest
from simt.metal_front_end import judge, there
from simt.metal_module import kernels
from simt.metal_rules import broken_rules, threadgroup_bytes
from simt.simulator import SimulatorError
from tegg.backends.metal.driver import prelude

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
LIMIT = "[[max_total_threads_per_threadgroup(256)]]\n"


def kernel(body: str, parameters: str = "device float *x [[buffer(0)]]", before: str = "") -> str:
    return f"{HEAD}{before}{LIMIT}kernel void f({parameters}) {{\n{body}\n}}\n"


RIGHT = kernel("  threadgroup float s[4];\n  s[0] = x[0];\n  x[0] = as_type<float>(as_type<int>(s[0]));")

# Why a text is wrong: what the checklist says of it, and what the front end says; None where one
# of them cannot know.
WRONG = {
    "lost address space": (kernel("  float *p = x;\n  p[0] = 1.0f;"), "without an address space", "cannot initialize"),
    "threadgroup as device": (kernel("  threadgroup float s[4];\n  g(s);", before="static void g(device float *p) { p[0] = 1.0f; }\n"), None, "no matching function"),
    "write to constant": (kernel("  x[0] = 1.0f;", "constant float *x [[buffer(0)]]"), None, "read-only|constant"),
    "buffer of no space": (kernel("  x[0] = 1.0f;", "float *x [[buffer(0)]]"), "no address space|without an address space", "address space"),
    "double": (kernel("  double d = x[0];\n  x[0] = d;"), "double is no type", "double"),
    "literal of double": (kernel("  x[0] = x[0] * 2.0;"), "literal of double", None),
    "long long": (kernel("  long long d = 3;\n  x[0] = (float)d;"), "long long", None),
    "suffix ll": (kernel("  x[0] = (float)5000000000ll;"), "literal of long long", None),
    "bfloat": (kernel("  x[0] = 1;", "device bfloat *x [[buffer(0)]]"), "bfloat", "unknown type name"),
    "atomic_float": (kernel("  x[0];", "device atomic_float *x [[buffer(0)]]"), "atomic_float", None),
    "name of C": (kernel("  x[0] = expf(x[1]);"), None, "expf"),
    "max of a float and an int": (kernel("  x[0] = max(x[1], 1);"), None, "ambiguous"),
    "three of four": (kernel("  *(device float4 *)x = float4(1.0f, 2.0f, 3.0f);"), None, "no matching function"),
    "vectors do not convert": (kernel("  x[0] = y[0];", "device half4 *x [[buffer(0)]], device float4 *y [[buffer(1)]]"), None, "incompatible type"),
    "goto": (kernel("  goto a;\n  a: x[0] = 1.0f;"), "goto", None),
    "lambda": (kernel("  auto g = [](float a) { return a; };\n  x[0] = g(1.0f);"), "lambdas", None),
    "recursion": (kernel("  x[0] = r(x[1]);", before="static float r(float x) { return x < 1.0f ? x : r(x - 1.0f); }\n"), "recursion", None),
    "recursion of two": (kernel("  x[0] = r(x[1]);", before="static float q(float x);\nstatic float r(float x) { return q(x); }\nstatic float q(float x) { return r(x); }\n"), "recursion", None),
    "pointer to a function": (kernel("  x[0] = g(1.0f);", before="static float one(float a) { return a; }\nstatic float g(float a) { float (*h)(float) = one; return (*h)(a); }\n"), "pointers to functions", "pointers to functions"),
    "virtual": (kernel("  x[0] = 1.0f;", before="struct s { virtual void f(); };\n"), "virtual", "virtual"),
    "variable outside": (kernel("  x[0] = y;", before="float y = 1.0f;\n"), "constant address space", "variable in.*address space|constant"),
    "shared in a block": (kernel("  {\n    threadgroup float s[4];\n    s[0] = x[0];\n  }"), "inner block", "outermost scope"),
    "shared in a function": (kernel("  g(x);", before="static void g(device float *p) { threadgroup float s[4]; s[0] = p[0]; p[0] = s[0]; }\n"), None, "non-kernel function variable"),
    "too much shared memory": (kernel("  threadgroup float s[9000];\n  s[0] = x[0];"), "more than 32 KB", None),
    "index twice": (kernel("  x[0] = y[0];", "device float *x [[buffer(0)]], device float *y [[buffer(0)]]"), "each once", None),
    "index left out": (kernel("  x[0] = y[0];", "device float *x [[buffer(0)]], device float *y [[buffer(2)]]"), "are not 0, 1, 2", None),
    "no attribute": (kernel("  x[0] = (float)n;", "device float *x [[buffer(0)]], uint n"), "has no attribute", None),
    "attribute of a wrong type": (kernel("  x[0] = n;", "device float *x [[buffer(0)]], float n [[threads_per_threadgroup]]"), "is of type float", None),
    "attribute twice": (kernel("  x[0] = 1.0f;", "device float *x [[buffer(0)]], uint n [[threads_per_threadgroup]], uint m [[threads_per_threadgroup]]"), "stands twice", None),
    "attribute that nobody knows": (kernel("  x[0] = 1.0f;", "device float *x [[buffer(0)]], uint n [[thread_position]]"), "unknown attribute", None),
    "a number as a buffer": (kernel("  x[0] = n;", "device float *x [[buffer(0)]], constant float n [[buffer(1)]]"), "no pointer or reference", None),
    "no limit": (kernel("  x[0] = 1.0f;").replace(LIMIT, ""), "states no max_total", None),
    "too many threads": (kernel("  x[0] = 1.0f;").replace("256", "2048"), "2048 threads", None),
    "a part of a simdgroup": (kernel("  x[0] = 1.0f;").replace("256", "40"), "40 threads", None),
    "too many buffers": (kernel("", ", ".join(f"device float *x{i} [[buffer({i})]]" for i in range(32))), "more than 31", None),
    "the C++ library": (kernel("  x[0] = std::max(x[0], x[1]);"), "the C\\+\\+ library", "std"),
    "an include": (kernel("  x[0] = 1.0f;", before="#include <math.h>\n"), "includes", None),
    "assembly": (kernel('  asm("nop");'), "assembly", None),
}


def test_what_is_right_is_taken():
    assert broken_rules(RIGHT) == []
    assert broken_rules(prelude()) == []
    if there():
        judge(RIGHT)
        judge(prelude())


@pytest.mark.parametrize("name", WRONG)
def test_the_checklist_refuses(name):
    text, words, _ = WRONG[name]
    if words is None:
        assert WRONG[name][2], "somebody refuses it"
        return
    assert re.search(words, "\n".join(broken_rules(text)))


@pytest.mark.parametrize("name", [n for n, w in WRONG.items() if w[2]])
def test_another_front_end_refuses(name):
    if not there():
        pytest.skip("ziglang is not installed")
    with pytest.raises(SimulatorError, match=WRONG[name][2]):
        judge(WRONG[name][0])


def test_heads_and_memory_are_read():
    (k,) = kernels(kernel("  threadgroup float s[4][5], t[3];\n  SHARED int32_t r[8];",
                          "device float *x [[buffer(0)]], uint n [[threadgroups_per_grid]]"))
    assert (k.name, k.threads, k.buffers) == ("f", 256, [0])
    assert k.parameters[1].attribute == "threadgroups_per_grid"
    text = kernel("  threadgroup float s[4][5], t[3];\n  SHARED int32_t r[8];")
    assert threadgroup_bytes(text, "f") == 4 * (20 + 3 + 8)
