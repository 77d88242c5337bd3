"""From a graph to a program: what is refused, what is cached, what a stack means."""

import gc
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from eclass_graphs import encoder
from hypothesis import given
from tegg.testing.programs import programs

import tegg
from tegg.runtime import driver
from tegg.rewrite.compiler import Compiler
from tegg.runtime.driver import Options, compile_graph
from tegg.errors import ArgumentError, BackendError, LoweringError
from tegg.ir.graph import Graph
from tegg.ir.op import OPS, Op
from tegg.ir.oracle import evaluate
from tegg.planning.target import find


def doubled():
    g = Graph()
    x = g.input("x", (3,), "f32")
    g.outputs["y"] = g.mul(x, 2)
    return g


def test_a_graph_without_outputs_is_refused():
    g = Graph()
    g.input("x", (3,), "f32")
    with pytest.raises(ArgumentError, match="the graph has no outputs; mark one with"):
        compile_graph(g, Options())


@pytest.mark.parametrize("search", driver.SEARCHES)
def test_a_weight_without_an_array_is_named(search):
    g = Graph()
    x, w, b = (g.input(n, (3,), "f32", kind) for n, kind in (("x", "arg"), ("w", "weight"),
                                                             ("b", "weight")))
    g.outputs["y"] = g.add(g.mul(x, w), b)
    options = Options(search=search, cache=False)
    with pytest.raises(ArgumentError, match="no array is given for w, b: a weight is bound to"):
        compile_graph(g, options)
    if search == "cost":
        assert driver.plan_graph(g, options).kernels  # a plan needs none


@given(programs(symbolic=False))
def test_bitwise_plans_are_the_same_for_any_number_of_threads(program):
    """Predicted times too: no choice can have depended on it."""
    shown = []
    for threads in ("1", "2", "16"):
        with pytest.MonkeyPatch.context() as m:
            m.setenv("TEGG_THREADS", threads)
            options = Options(precision="bitwise", cache=False)
            shown.append(driver.plan_graph(program.graph, options).show())
    assert len({*shown}) == 1


@pytest.mark.parametrize("threads", ["1", "16"])
def test_a_bitwise_program_explains_the_plan_that_runs(monkeypatch, threads):
    monkeypatch.setenv("TEGG_THREADS", threads)
    run = tegg.compile(lambda x: x @ x + tegg.exp(x).sum(0), precision="bitwise", cache=False)
    x = np.ones((64, 64), np.float32)
    run(x)
    predicted = f"predicted {run.stats['predicted_seconds'] * 1e6:.1f} us a run"
    assert predicted in run.explain()


def test_a_plan_is_made_without_cyclic_garbage():
    """What a compilation needs is freed when it is no longer needed, not when a collector looks."""
    graph, options = encoder(2, t=32, d=48), Options(cache=False)
    kept = [driver.plan_graph(graph, options)]  # and what it loads
    gc.collect()
    gc.disable()
    try:
        kept.append(driver.plan_graph(graph, options))
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_an_unknown_device_names_the_nearest():
    with pytest.raises(BackendError, match="no package offers a device 'cpuu'; did you mean 'cpu'"):
        compile_graph(doubled(), Options(device="cpuu"))


def test_a_stack_runs_on_one_device():
    class Other:
        name, ops = "other", ()

    stack = (Compiler(name="a", target=find("cpu")), Compiler(name="b", target=Other()))
    with pytest.raises(ArgumentError, match="the stack names several devices: cpu, other"):
        compile_graph(doubled(), Options(stack))


@pytest.mark.parametrize("options, text", [
    (Options((3,)), "a stack is made of compilers, such as tegg.Generic() or "
                    "tegg.Compiler('rules.egg'), not 3"),
    (Options(("generic",)), "not 'generic'"),
    (Options(budget_s="long"), "budget_s is a number of seconds, not 'long'")])
def test_options_that_cannot_be(options, text):
    with pytest.raises(ArgumentError) as e:
        compile_graph(doubled(), options)
    assert text in str(e.value)


def test_dims_are_a_dict():
    with pytest.raises(ArgumentError, match=r"dims= takes a dict of argument names and shapes, "
                                            r"such as \{'x': \(tegg.dim\('n'\), None\)\}, not 3"):
        tegg.compile(lambda x: x, dims=3)


def test_the_second_compilation_comes_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(compile_graph(doubled(), Options())(x)["y"], x * 2)

    def never(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(driver, "_make", never)
    np.testing.assert_array_equal(compile_graph(doubled(), Options())(x)["y"], x * 2)
    with pytest.raises(AssertionError, match="compiled again"):
        compile_graph(doubled(), Options(precision="bitwise"))


def test_a_damaged_plan_in_the_cache_is_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    compile_graph(doubled(), Options())
    (plan,) = tmp_path.rglob("*.plan")
    plan.write_bytes(b"garbage")
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(compile_graph(doubled(), Options())(x)["y"], x * 2)


def test_where_a_template_is_refused_another_one_computes_the_contraction(monkeypatch):
    g, rng, target = Graph(), np.random.default_rng(0), find("cpu")
    x = g.input("x", (1, 16, 12, 12), "f32")
    given = {"x": rng.standard_normal((1, 16, 12, 12), np.float32)}
    for i in range(4):  # the last one is not even tried
        v, w = x, g.input(f"w{i}", (32, 16, 3, 3), "f32")
        given[f"w{i}"] = rng.standard_normal((32, 16, 3, 3), np.float32)
        for axis in (2, 4):
            v = g.op("Window", v, axis, 3, 1, 1)
        g.outputs[f"y{i}"] = g.op("Exp", g.op("Contract", w, v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
                                              (1, 32, 10, 10)))
    tried: list[str] = []
    whole = type(target).lower

    def lower(self, fragment, name, constant):
        tried.extend(a.op.name for a in fragment.anchors)
        if len(fragment.anchors) == 1 and fragment.anchors[0].op.name == "CpuDirect":
            raise LoweringError("not in a test")
        return whole(self, fragment, name, constant)

    monkeypatch.setattr(type(target), "lower", lower)
    program = compile_graph(g, Options(cache=False))
    assert "CpuPacked" in tried and all("CpuDirect" not in c.label for c in program.plan.run)
    assert tried.count("CpuDirect") <= 3
    got = program(*given.values())
    want = evaluate(g.outputs.values(), dict(enumerate(given.values())))
    for name, y in zip(g.outputs, want):
        np.testing.assert_allclose(got[name], y, 1e-3)


def test_a_refused_kernel_is_taken_out_and_the_choice_made_again(monkeypatch):
    g = Graph()
    x = g.input("x", (8, 16), "f32")
    g.outputs["y"] = g.idiom("Softmax", g.mul(x, 2), 1)
    target, refused = find("cpu"), []
    whole = type(target).lower

    def lower(self, fragment, name, constant):
        if not refused:
            refused.append(fragment)
            raise LoweringError("too large for a test")
        return whole(self, fragment, name, constant)

    monkeypatch.setattr(type(target), "lower", lower)
    program = compile_graph(g, Options(cache=False))
    assert refused and program.plan.stats["refused"] == 1 and len(program.plan.run) > 1
    a = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    e = np.exp(2 * a - 2 * a.max(1, keepdims=True))
    np.testing.assert_allclose(program(a)["y"], e / e.sum(1, keepdims=True), 1e-5, 1e-7)


def test_an_op_without_a_spelling_names_op_dtype_and_target():
    row = tegg.Op("Twist", "elementwise", 1, lambda s, a, f: s[0], lambda d, a: d[0],
                  lambda a, t, s, d: a[0])
    g = Graph(table={**Graph().table, "Twist": row})
    g.outputs["y"] = g.op("Twist", g.input("x", (3,), "f32"))
    with pytest.raises(tegg.ExtractionError, match="Twist has no lowering for f32 on cpu"):
        compile_graph(g, Options())


def test_several_programs_want_one_to_be_named():
    f = tegg.compile(lambda x: x + 1)
    f(np.zeros(2, np.float32))
    assert "k0" in f.source() and f.plan.run and f.stats["calls"] == 1 and f.explain()
    f(np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match="source.. is of one program, and <lambda> has 2"):
        f.source()


def test_compile_takes_functions_and_graphs():
    with pytest.raises(ArgumentError, match="compile takes a function or a tegg.Graph, not int"):
        tegg.compile(3)
    with pytest.raises(ArgumentError, match="dims= is for functions"):
        tegg.compile(doubled(), dims={"x": (None,)})
    assert tegg.compile(doubled())(np.ones(3, np.float32))["y"].tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match="dims names z; array arguments are x"):
        tegg.compile(lambda x: x, dims={"z": (None,)})(np.ones(3, np.float32))


def test_static_arguments_and_defaults_are_part_of_the_program():
    @tegg.compile
    def f(x, scale=2, *, shift=0):
        return x * scale + shift

    x = np.arange(3, dtype=np.float32)
    assert f(x).tolist() == [0, 2, 4]
    assert f(x, 3).tolist() == [0, 3, 6]
    assert f(x, shift=1).tolist() == [1, 3, 5]
    assert f(x).tolist() == [0, 2, 4]
    assert f(x, x).tolist() == [0, 1, 4]
    assert f(x).tolist() == [0, 2, 4]


def test_nested_results_keep_their_structure():
    @tegg.compile
    def f(pair, *, names):
        a, b = pair
        return {names: (a + b, [a - b])}

    a, b = np.ones(2, np.float32), np.full(2, 3, np.float32)
    for _ in range(2):
        out = f((a, b), names="n")
        assert out["n"][0].tolist() == [4, 4] and out["n"][1][0].tolist() == [-2, -2]


@pytest.mark.parametrize("level, seen, unseen", [
    ("0", (), ("run:", "phase", "void")), ("1", ("run: k0",), ("phase", "void")),
    ("2", ("run: k0", "phase algebra"), ("void",)), ("3", ("run: k0", "phase", "void k0_0"), ())])
def test_debug_prints_plan_rules_and_source(monkeypatch, capsys, level, seen, unseen):
    monkeypatch.setenv("TEGG_DEBUG", level)
    doubled().compile([tegg.Generic()])
    text = capsys.readouterr().err
    assert all(s in text for s in seen) and not any(u in text for u in unseen)


def test_display_shows_graph_egraph_and_plan(capsys, tmp_path):
    g = Graph()
    x = g.input("x", (8, 16), "f32")
    g.outputs["y"] = g.expansion("Softmax", x, 1)
    assert "MaxReduce" in g.display() and "Softmax" not in g.display()
    assert "Softmax" in g.display(what="egraph") and "MaxReduce" in g.display(what="egraph")
    plan = g.display(tmp_path / "plan.txt", what="plan")
    assert "1 kernel," in plan and "Softmax" in plan and (tmp_path / "plan.txt").read_text() == plan
    with pytest.raises(ArgumentError, match="display shows 'graph', 'egraph' or 'plan', not 'x'"):
        g.display(what="x")


def test_an_op_that_means_something_else_makes_another_plan(tmp_path):
    def identity(text, name):
        path = tmp_path / name
        path.write_text(text)
        found = {}
        exec(compile(text, str(path), "exec"), {"OPS": OPS}, found)  # noqa: S102
        return Compiler(ops=[found["row"]], name="mine").identity()

    row = ("row = type(OPS['Neg'])('Twice', 'elementwise', 1, OPS['Neg'].shape, OPS['Neg'].dtype, "
           "None, expand=lambda b, a, t: b.mul(a[0], {}))\n")
    assert identity(row.format(2), "a.py") == identity(row.format(2), "b.py")
    assert identity(row.format(2), "c.py") != identity(row.format(3), "d.py")
    typed = {}
    exec("def f(a, t, s, d): return a[0]", {}, typed)  # noqa: S102
    rows = [Op("Twice", "elementwise", 1, OPS["Neg"].shape, OPS["Neg"].dtype, typed["f"])] * 2
    first, second = (Compiler(ops=[r], name="mine").identity() for r in rows)
    assert first != second


def test_plans_of_other_code_or_costs_are_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    compile_graph(doubled(), Options())
    compile_graph(doubled(), Options())
    assert len(list(tmp_path.rglob("*.plan"))) == 1
    monkeypatch.setattr(driver, "code_stamp", lambda: "edited")
    compile_graph(doubled(), Options())
    assert len(list(tmp_path.rglob("*.plan"))) == 2
    costs = find("cpu").costs()
    monkeypatch.setattr(type(find("cpu")), "costs", lambda self: replace(costs, launch=1.0))
    compile_graph(doubled(), Options())
    assert len(list(tmp_path.rglob("*.plan"))) == 3


def test_a_function_that_computes_nothing_is_named():
    def nothing(x):
        x + 1

    with pytest.raises(ArgumentError, match="nothing returns no tensor and updates no state"):
        tegg.compile(nothing)(np.ones(3, np.float32))


def test_what_decides_a_plan_is_the_same_in_every_process():
    """A cached plan is found again only if nothing in its key is an address or a time."""
    code = ("from tegg.rewrite.compiler import *\nfrom tegg.planning.target import find\n"
            "import hashlib\nstack = (Generic(), Bf16(), Fp16(), lowering(find('cpu')))\n"
            "text = ' '.join([find('cpu').identity(), *(c.identity() for c in stack)])\n"
            "print(hashlib.sha256(text.encode()).hexdigest())")
    seen = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           check=True).stdout for _ in range(2)}
    assert len(seen) == 1 and seen != {""}
