"""What the checker of rules draws: steps, thresholds, whole dtypes; and every form of a guard."""

from __future__ import annotations

from random import Random

import pytest
from one_rule import findings

from tegg.dtype import DTYPES
from tegg.errors import RuleError
from tegg.testing.values import beside, draw_array


def problems(*rule: str, **how: str) -> dict[str, str]:
    return {check: f.problem for check, f in findings(*rule, **how).items()}


FALSE = {
    "where floats are equal": ("rule ((= e (LessThan x y)) (= d (dtype x)) (float-type d)) "
                               "((union e (LessEqual x y)))", "reals", "float-type"),
    "at a constant": ("rule ((= e (Equal x (Const 37.0)))) ((union e (Const false)))", "reals"),
    "at a constant, bit by bit": ("rewrite (Equal x (Const 37.0)) (Const false)", "bitwise"),
    "at an integer": ("rewrite (Equal x (Const 37)) (Const false)", "bitwise"),
    "beyond a constant": ("rewrite (Minimum x (Const 100.0)) x", "reals"),
    "below a constant on the right": ("rewrite (Abs (Neg x)) (Maximum (Abs x) (Const 2.5))",
                                      "reals"),
    "of large integers": ('rewrite (Cast (Cast x "i32") "i64") x :when ((= "i64" (dtype x)))',
                          "bitwise"),
    "of integers that a float lacks": ('rewrite (Cast (Cast x "f32") "i32") x '
                                       ':when ((= "i32" (dtype x)))', "bitwise"),
    "where integers wrap": ("rewrite (LessThan (Add x (Const 1)) (Add y (Const 1))) "
                            "(LessThan x y)", "reals"),
    "where squares wrap": ("rewrite (Maximum (Mul x x) (Const 0)) (Mul x x)", "bitwise"),
    "in float32": ('rewrite (Recip (Recip x)) (Mul x (Const 1.5)) :when ((= "f32" (dtype x)))',
                   "reals"),
}
TRUE = {
    "a constant of floats alone": ("rewrite (Sub x x) (Const 0.0)", "reals"),
    "a constant of integers alone": ("rewrite (Sub x x) (Const 0)", "bitwise"),
    "a law of float32": ('rewrite (Recip (Recip x)) x :when ((= "f32" (dtype x)))', "reals"),
    "a law of bfloat16": ('rewrite (Recip (Recip x)) x :when ((= d (dtype x)) (= "bf16" d))',
                          "reals"),
    "a pole": ("rewrite (Mul x (Div y x)) y", "reals"),
    "a term, then its name": ("rule ((= (Neg (Neg x)) e)) ((union e x))", "bitwise"),
    "a term without a name": ("rule ((= e (Neg (Neg x))) (Neg (Neg x))) ((union e x))", "bitwise"),
    "two shapes": ("rule ((= e (Reshape x s)) (= (shape e) (shape x))) ((union e x))", "bitwise"),
    "three operands that are bool": ("rewrite (Not (Mul (Not x) (Not y))) (Add x y)", "bitwise"),
    "a sum inside of a sum": ("rule ((= e (Flip (Flip x j) j)) (< (- (* 2 j) (abs j)) 9)) "
                              "((union e x))", "bitwise"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_rule_is_refused(what):
    found = problems(*FALSE[what])
    assert "is not" in found["sound"] and "differ" in found["sound"]


@pytest.mark.parametrize("what", TRUE)
def test_a_right_rule_is_not(what):
    assert problems(*TRUE[what]).get("sound") is None


@pytest.mark.parametrize("guard", ["(= 0 (% k 2))", "(= 0 (/ k 2))", "(= j (abs k)) (= j 0)",
                                   "(= j (+ (* k 2) 1)) (= 1 j)", "(= (+ k 1) (- 1 k))"])
def test_numbers_are_computed_as_the_engine_does(guard):
    """Axis 0 is drawn, and a rule that holds of it alone fires."""
    rule = f"rule ((= e (SumReduce (SumReduce x k) k)) {guard}) ((union e (SumReduce x k)))"
    assert set(problems(rule, "reals")) <= {"guard"}


def test_a_division_by_0_never_holds():
    rule = "rule ((= e (SumReduce x k)) (= 1 (/ k 0))) ((union e x))"
    assert "no graph was found that its left side matches" in problems(rule, "reals")["sound"]


def test_a_constant_that_never_fits():
    rule = "rewrite (LessThan x (Const 1.0)) (LessThan x (Const 2.0))"
    assert ("(LessThan x (Const 2.0)) cannot be built there; a constant takes the dtype of the class "
            "that is matched, bool: write (Full d s v) for another") in problems(rule, "reals")["sound"]


def test_what_a_function_means_is_said_in_words():
    relation = ";; (depth x) means its depth\n(function depth (Tensor) i64 :merge (min old new))\n"
    rule = "rule ((= e (Abs x))) ((set (depth e) 3))"
    assert ("what depth means is said in words, which no test reads"
            in problems(rule, "facts", relation=relation)["sound"])


def test_an_axis_that_there_is_not_and_a_dtype_that_there_is_not():
    rule = "rule ((= e (SumReduce x k))) ((union e (SumReduce x (+ k 1))))"
    found = problems(rule, "reals")
    assert "(SumReduce x (+ k 1)) cannot be built there" in found["sound"]
    assert "a rule built SumReduce(" in found["live"] and "is outside" in found["live"]
    assert "tegg has no dtype 'f99'" in problems('rewrite (Abs x) (Cast x "f99")', "reals")["live"]


def test_a_form_that_is_subsumed_for_the_sake_of_itself():
    found = problems("rewrite (Neg (Neg x)) x :subsume", "bitwise")
    assert found == {"live": "rules mine/rule subsumed every form of a value that the program needs: "
                             "what was to stand for it is made of it, or was subsumed as well; leave "
                             "':subsume' out"}


MEANING = "\n;; (one x) means (two x)\n(relation one (Tensor))\n;; (two x) means (one x)\n" \
          "(relation two (Tensor))\n"


def test_a_meaning_that_never_ends():
    with pytest.raises(RuleError) as e:
        problems("rule ((= e (Abs x))) ((one e))", "bitwise", relation=MEANING)
    assert [p.split(": ")[0] for p in e.value.problems] == ["mine.egg:13:1", "mine.egg:15:1"]
    assert "one is said to mean what is said to mean it; say one of them" in e.value.problems[0]


def test_values_beside_constants():
    assert beside((3.0,)) == (3.0, 2.0, 4.0, 6.0, -3.0)
    for name, dtype in DTYPES.items():
        array = draw_array((200,), dtype, "positive", True, Random(name), (0.0, 5.0, 1e-40))
        assert dtype.kind == "bool" or (array > 0).all(), name


@pytest.mark.parametrize("right, words", [
    ('(Permute x "a,b")', "a rule built an op with the text 'a,b' for an attribute of kind perm; "
                          "write numbers, as in \"1,0\", or a variable of its left side"),
    ('(Cast x "f99")', "a rule built an op with the text 'f99' for a dtype: tegg has no dtype 'f99'"),
    ('(Reshape x "7")', "mine.egg:13:1: rule 'mine/rule' built an op of another shape or dtype than "
                        "its class has, as 'shape/reshape' saw; add a guard on (shape e)"),
])
def test_texts_that_are_no_attributes_and_who_built_what_does_not_fit(right, words):
    assert problems(f"rewrite (Abs x) {right}", "reals")["live"].startswith(words)
