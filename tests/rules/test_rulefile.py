"""Rule files: what is read, and the words of every refusal."""

from __future__ import annotations

import re

import pytest

from tegg.rewrite.compiler import Compiler
from shipped import STACK as SHIPPED
from tegg.rewrite.sources import builtin_root
from tegg.errors import RuleError
from tegg.ir.op import OPS
from tegg.rewrite.pipeline import phases
from tegg.rewrite.rulecheck import check
from tegg.rewrite.rulefile import RuleSet, read_rule_file, read_rules
from tegg.rewrite.ruletext import plain_name, rule_texts
from tegg.rewrite.vocabulary import Word, vocabulary

KEYS = {"ruleset": "sub", "class": "reals", "phase": "names", "uses": "-", "grows": "no",
        "targets": "any"}
GOOD = ';; a + -b  =>  a - b\n(rewrite (Add a (Neg b)) (Sub a b) :ruleset sub :name "sub/one")\n'


def text(body: str = GOOD, sentence: str = ";; Subtraction.", declare: str = "(ruleset sub)",
         **keys: str | None) -> str:
    header = [f";; {k}: {v}" for k, v in {**KEYS, **keys}.items() if v is not None]
    return "\n".join([sentence, *header, "", declare, "", body])


def rule(body: str) -> str:
    return f";; a law\n({body} :ruleset sub :name \"sub/one\")\n"


def load(source: str, declared: tuple[Word, ...] = ()) -> RuleSet:
    found = read_rules(source, "fuse/sub.egg", ("rules", "fuse", "sub"))
    words = vocabulary(OPS, (*declared, *(r.word for r in found.relations)))
    check(found, words)
    return found


def test_a_good_file():
    assert load(text(targets="by-numpy")).header.targets == ("by-numpy",)
    found = load(text(**{"class": "rounds 2^-10", "grows": "yes 3", "targets": "cpu, cuda>=80"}))
    header = found.header
    assert (header.sentence, header.kind, header.error) == ("Subtraction.", "rounds", 2.0 ** -10)
    assert (header.grows, header.targets, header.uses) == (3, ("cpu", "cuda>=80"), frozenset())
    assert [r.name for r in found.rules] == ["sub/one"]
    assert found.rules[0].law == "a + -b  =>  a - b"
    assert repr(found.rules[0]) == "<rule sub/one at fuse/sub.egg:12>"
    assert repr(found) == "<rule set sub: 1 rules>"


FORM = [
    # ---- the text
    (text(rule("rewrite (Neg a)) a")), "13:1: ')' closes nothing|is not a|outside of any command"),
    (text(GOOD + ")"), "13:1: ')' closes nothing; delete it or add its '('"),
    (text(GOOD + "(rule"), "13:1: this '(' is never closed; add a ')'"),
    (text(GOOD + "(" * 101), "13:101: lists are nested more than 100 deep; give an inner part a "
                             "name by a relation"),
    (text(GOOD + "word"), "13:1: 'word' stands outside of any command; comments begin with ';'"),
    (text(GOOD + '(rule "x'), "13:7: this string is never closed; add a '\"' on the same line"),
    (text(GOOD + '(rule "x\\n"'), 'holds a backslash; strings are plain text here'),
    # ---- the header
    (text(sentence=";; no full stop"), "1:1: the header begins with a sentence, not 'no full "
                                       "stop'; say in a comment what the file is for, with a full "
                                       "stop"),
    (text(phase=None), "1:1: the header lacks 'phase:'; add a comment line 'phase: some of "
                       "rules/pipelines.toml'"),
    (text(grow="no"), "8:1: unknown key 'grow' in the header; it has ruleset, class, phase, uses, "
                      "grows, targets; did you mean grows?"),
    (text(ruleset="add"), "2:1: ruleset 'add' does not match the path; call it 'sub' or move the "
                          "file"),
    (text(**{"class": "exact"}), "3:1: 'class: exact' is not understood; write class: bitwise, "
                                 "reals, rounds 2^-K or facts"),
    (text(grows="yes"), "6:1: 'grows: yes' is not understood; write grows: no, or yes N"),
    (text(targets="CUDA"), "7:1: 'targets: CUDA' is not understood; write targets: any, or cpu, "
                           "cuda>=80"),
    (text(targets="any, cpu"), "7:1: 'targets: any, cpu' is not understood"),
    (text(phase=""), "4:1: 'phase: ' is not understood; write phase: some of rules/pipelines.toml"),
    (text(**{"class": "rounds 2^-9999"}), "'class: rounds 2^-9999' is not understood"),
    (text(targets="any\n;; class: bitwise"), "8:1: the header says 'class:' again, after line 3; "
                                             "keep one of them"),
    # ---- commands
    (text(declare=""), "1:1: the file never says (ruleset sub); add it below the header"),
    (text(declare="(ruleset add)"), "9:1: (ruleset add); a file declares its own rule set once: "
                                    "(ruleset sub)"),
    (text("(ruleset sub)"), "11:1: (ruleset sub); a file declares its own rule set once"),
    *[(text(f"({c} x)"), f"11:1: ({c} x) is not allowed in a rule file; it may hold ruleset, "
                         f"rewrite, birewrite, rule, relation, function")
      for c in ("datatype", "let", "run", "check", "include", "extract", "input", "output",
                "delete", "push", "py-exec")],
    (text("(relation r Tensor)"), "11:1: (relation r Tensor) is not of the form (relation name "
                                  "(Sort ...)) with the sorts Tensor, Buffer, String, i64"),
    (text("(relation r (Float))"), "is not of the form (relation name (Sort ...))"),
    (text("(relation r (Tensor))"), "11:1: r has no meaning; write above it ';; (r a b ...) "
                                    "means ' and terms such as (= a (Recip b)), or what holds"),
    (text(";; (r a b) means things\n(relation r (Tensor))"), "12:1: r has no meaning"),
    (text(";; (f a) means things\n(function f (Tensor) i64 :merge old)"),
     "12:1: :merge old of f is not allowed; a function gives an i64 and merges by"),
    # ---- rules
    (text('(rewrite (Neg a) a :ruleset sub :name "sub/one")'),
     "11:1: (rewrite (Neg a) a :ruleset sub :name \"sub/one\") has no law; write it above the rule "
     "in mathematics, as in ';; a + b * -1  =>  a - b'"),
    (text(";; law\n(rewrite (Neg a) a" + "\n" * 12 + ' :ruleset sub :name "sub/one")'),
     "12:1: the rule has 13 lines, at most 12 are allowed; stage it through a relation"),
    (text(";; law\n(rewrite (Neg a) a :ruleset sub)"), "12:1: the rule is named None; write :name "
     "\"sub/slug\" with a slug of letters, digits and dashes"),
    (text(';; law\n(rewrite (Neg a) a :ruleset sub :name "add/one")'),
     'the rule is named "add/one"'),
    (text(';; law\n(rewrite (Neg a) a :ruleset add :name "sub/one")'),
     "belongs to no rule set; write :ruleset sub"),
    (text(GOOD + GOOD), "14:1: the name 'sub/one' is taken by line 12; each rule has its own"),
    (text(rule("rewrite a (Neg a)")), "12:10: the left side is a; it must be a term, or the rule "
                                      "would match every value"),
    (text(rule("rewrite (Neg a)")), "12:18: :ruleset|is not an option here|lacks its two parts"),
    (text(rule("rewrite (Neg a) a :when")), ":when|has no value|is not an option|guard"),
    (text(";; law\n(rewrite (Neg a) a :ruleset)"), "12:20: :ruleset has no value"),
    (text(rule("rewrite (Neg a) a :cost 3")), "12:20: :cost is not an option here; a rewrite takes "
                                              ":name, :ruleset, :subsume, :when, each once"),
    (text(";; law\n(rule)"), "12:1: (rule) lacks its two parts, what it looks for and what it "
                             "gives"),
    (text(rule("rule (Neg a) ()")), "is not of the form (rule (fact ...) (action ...) :ruleset r"),
    # ---- what rules say
    (text(rule("rewrite (Ad a (Neg b)) (Sub a b)")),
     "12:10: (Ad a (Neg b)) in rule 'sub/one': Ad is no op, relation or listed primitive; "
     "did you mean Add?"),
    (text(rule("rewrite (Xyzzy a) a")), "Xyzzy is no op, relation or listed primitive; ops are in "
                                        "the op table, primitives are + - * / % min max abs"),
    *[(text(rule(f"rewrite (Neg a) (Sub a ({p} \"1\")))".replace(")))", "))"))),
       f"{p} is no op, relation or listed primitive") for p in ("py-eval", "py-call", "delete")],
    (text(rule("rewrite (Neg a) ({} a)".format(";; hidden\n py-eval"))), "py-eval is no op"),
    (text(rule("rewrite (Add a) a")), "Add takes 2 arguments (Tensor Tensor), not 1"),
    (text(rule("rewrite (Neg a) b")), "b in rule 'sub/one': the left side does not bind it"),
    (text(rule("rewrite (Neg abc) abd")), "does not bind it; did you mean abc?"),
    (text(rule("rewrite (Neg _x) _x")), "names that begin with _ are the loader's; use another"),
    (text(rule("rewrite (Expand a a) a")), "it is used as Tensor and as String; use two names"),
    (text(rule("rewrite (Expand a 3) a")), "it is of sort i64, where String is needed"),
    (text(rule("rewrite (Mul a 2.0) a")), "a float stands only in (Const 2.0)"),
    (text(rule("rewrite (Mul a (Const two)) a")), "write (Const -1.0) for floats, (Const -1) for "
                                                  "integers, (Const true) for bool"),
    (text(rule("rewrite (Mul a (Const 300)) a")), "an integer constant fits every integer dtype: "
                                                  "-128 to 127"),
    (text(rule("rewrite (Add a b) a :when ((!= a b))")),
     "12:29: (!= a b) in rule 'sub/one': != compares numbers or texts only; of terms it would mean "
     "'not yet in one class'. Prove it by a relation instead"),
    (text(rule(f"rewrite (SumReduce a k) a :when ((= k {2 ** 63}))")),
     "9223372036854775808 in rule 'sub/one': an integer lies between -2^63 and 2^63 - 1"),
    (text(rule(f"rewrite (SumReduce a k) a :when ((= k -{'9' * 5000}))")), "an integer lies betw"),
    (text(rule("rewrite (Mul a (Const \u0663)) a")), "write (Const -1.0) for floats"),
    (text(rule("rewrite (Mul a (Const --1)) a")), "write (Const -1.0) for floats"),
    (text(rule("rewrite (Neg a\x00) a")), "12:16: the character '\\x00' has no place in a rule "
                                          "file; delete it"),
    (text(";; a law\u2028\n"), "11:9: the character '\\u2028' has no place in a rule file"),
    (text(rule("rewrite (SumReduce a k) a :when ((< k))")), "< takes two arguments"),
    (text(rule("rewrite (SumReduce a k) a :when ((= 3 (+ k 1 2)))")), "+ takes two arguments"),
    (text(rule("rewrite (SumReduce a k) a :when ((= 3 (abs k 2)))")), "abs takes one argument"),
    (text(rule("rewrite (SumReduce a k) a :when ((% k 2))")),
     "(% k 2) in rule 'sub/one': a number by itself says nothing; compare it, as in (= j "),
    (text(rule("rewrite (SumReduce a k) a :when ((= k))")), "= takes two sides"),
    (text(rule("rule ((= e (Neg a))) ((set (Neg a) e))")), "(Neg a) in rule 'sub/one': set "
     "gives a value to a declared function, a shape or a dtype; of terms write (union e term)"),
    (text(rule("rewrite (Neg a) a :when (a)")), "a guard is a parenthesised fact, such as"),
    (text(rule("rewrite (Neg (Neg (Neg (Neg (Neg a))))) a")),
     "it is 5 levels deep, at most 4 are allowed; stage it through a relation"),
    (text(rule("rewrite (Add (Add (Add a b) (Add c d)) (Add (Add e f) (Add (Neg g) (Neg h)))) a")),
     "the rule looks for 9 terms, at most 8 are allowed; stage it through a relation"),
    (text(rule("rule ((= e (Neg a))) ((delete (Neg a)))")),
     "delete is not an action that rules may take; they may union, set, subsume, panic, "
     "state a relation or build a term"),
    (text(rule("rule ((= e (Neg a))) (e)")), "an action is a parenthesised term"),
    (text(rule("rule ((= e (Neg a))) ((panic \"no\"))")),
     "panic is for tripwires: alone in a rule of class facts"),
    (text(rule("rule ((= e (Neg a))) ((union e a))"), **{"class": "facts"}),
     "a rule set of class facts unions nothing; claim another class"),
    (text(rule("rule ((= e (SumReduce a k))) ((union e k))")), "union joins two Tensors or two "
                                                              "Buffers, not Tensor and i64"),
    (text(rule("rule ((= e (Neg a))) ((Neg (Const 1.0)))")), "a constant takes its dtype and shape "
     "from the class that is matched: it stands only in (union e ...) with a variable e"),
    (text(rule("rule ((= e (Neg (Neg a)))) ((subsume (Neg a)))")),
     "subsume takes a whole term (= e term) of the left side"),
    (text(rule("rule ((= e (Neg a)) (= a (Sin b))) ((subsume (Neg a)))")),
     "nothing else stands for its class; match another form of it, (= e other), or union one"),
    (text(uses="positive"), "1:1: 'uses:' lists positive, which no guard reads; remove it"),
    (text(";; (r a) means things\n(relation r (Tensor))\n"
          + rule("rewrite (Neg a) a :when ((r a))")),
     "1:1: guards read r, which 'uses:' does not list; add it there"),
]


@pytest.mark.parametrize("source, words", FORM, ids=[re.sub(r"\W+", "-", w)[:50] for _, w in FORM])
def test_what_is_refused(source, words):
    with pytest.raises(RuleError) as error:
        load(source)
    assert str(error.value).startswith("fuse/sub.egg:")
    assert any(w in str(error.value) for w in words.split("|")), str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "sub.egg").write_bytes(b"\xff")
    with pytest.raises(RuleError, match="byte 0 is not UTF-8; save the file as UTF-8"):
        read_rule_file(tmp_path / "sub.egg")
    with pytest.raises(RuleError, match="cannot be read .*; give the path of an .egg file"):
        read_rule_file(tmp_path)


def test_a_mark_at_the_start_and_ends_of_lines_of_windows(tmp_path):
    (tmp_path / "sub.egg").write_bytes(b"\xef\xbb\xbf" + text(GOOD).replace(
        "\n", "\r\n").encode())
    assert [r.name for r in read_rule_file(tmp_path / "sub.egg").rules] == ["sub/one"]


def test_built_in_names_are_whole_paths():
    with pytest.raises(RuleError, match="does not match the path; call it 'fuse.sub'"):
        read_rules(text(), "fuse/sub.egg", ("fuse", "sub"), exact=True)


def test_birewrites_are_two_rules():
    found = load(text(";; -(-a) = a\n(birewrite (Neg (Neg a)) (Mul a (Const 1.0)) :ruleset sub "
                      ":name \"sub/one\")"))
    assert [r.name for r in found.rules] == ["sub/one=>", "sub/one<="]


def test_constants_and_mirror_images():
    words = vocabulary(OPS)
    found = load(text(rule("rewrite (Mul a (Const -1.0)) (Add (Const 2.0) a) :subsume")))
    (one,) = rule_texts(found.rules[0], words, "r")
    assert one == (
        '(rule ((= ?_e (Mul ?a (Full ?_d0 ?_s0 -4616189618054758400))) (float-type ?_d0) '
        '(float-type ?_d) (= ?_s (shape ?_e)) (= ?_d (dtype ?_e))) ((union ?_e (Add ?a (Full ?_d '
        '?_s 4611686018427387904))) (subsume (Mul ?a (Full ?_d0 ?_s0 -4616189618054758400)))) '
        ':ruleset r :name "sub/one")')
    found = load(text(rule("rewrite (Add a (Mul b (Neg c))) a")))
    texts = rule_texts(found.rules[0], words, "r")
    assert len(texts) == 4 and {plain_name(t.split('"')[-2]) for t in texts} == {"sub/one"}
    found = load(text(rule("rewrite (Mul a a) a")))
    assert len(rule_texts(found.rules[0], words, "r")) == 1


def test_built_in_files():
    """All are read and checked; what each claims stands in its header."""
    found = SHIPPED
    files = sorted(builtin_root().rglob("*.egg"))
    assert sorted(s.file for s in found.rule_sets) == [str(f) for f in files]
    known = {p.name for p in phases()} | {"facts"}
    for s in found.rule_sets:
        assert set(s.header.phases) <= known and s.header.sentence.endswith(".") and s.rules
        assert 10 <= len(s.text.splitlines()) <= 150, s.file
        assert (s.header.kind == "facts") == (s.header.phases == ("facts",))


def test_subsumed_nodes_are_gone():
    from tegg.rewrite.egraph import saturate
    from tegg.ir.graph import Graph
    source = text(rule("rewrite (Mul a (Const 2.0)) (Add a a) :subsume"))
    graph = Graph()
    x = graph.input("x", (3,), "f32")
    graph.outputs["out"] = graph.op("Mul", x, graph.full(2, "f32", (3,)))
    compiler = Compiler(read_rules(source, "sub.egg"))
    classes = saturate(graph, compiler).classes
    assert [n.op.name for n in classes.nodes[classes.outputs["out"]]] == ["Add"]
