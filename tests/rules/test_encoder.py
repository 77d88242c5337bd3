"""A whole encoder: what it becomes, that every class agrees, and that nothing grows for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from encoder import Encoder, draw
from tegg.rewrite.compiler import Compiler, Generic
from tegg.dim import dim
from tegg.rewrite.egraph import Saturated, saturate
from tegg.rewrite.rulefile import read_rules
from tegg.testing.agree import check_egraph

SMALL = {"width": 24, "heads": 4, "inner": 48, "words": 50, "positions": 16}
SYMBOLS = (dim("b", 1, 8), dim("t", 2, 16))


def names(done: Saturated) -> Counter[str]:
    return Counter(n.op.name for nodes in done.classes.nodes.values() for n in nodes)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("batch, tokens", [(2, 6), SYMBOLS], ids=["int", "symbol"])
def test_it_becomes_the_named_ops(layers, batch, tokens):
    found = names(saturate(Encoder(layers, batch, tokens, **SMALL).g, Generic()))
    assert found["LayerNorm"] == 1 + 2 * layers
    assert found["Softmax"] == found["Gelu"] == layers
    # q, k, v, out, up, down, scores, mixing; the masked sum over tokens is one more
    assert found["Contract"] == 8 * layers + 1
    assert found["Gather"] == 2


@pytest.mark.parametrize("batch, tokens, sizes", [(2, 6, {}), (*SYMBOLS, {"b": 2, "t": 5})],
                         ids=["int", "symbol"])
def test_every_class_agrees(batch, tokens, sizes):
    encoder = Encoder(1, batch, tokens, **SMALL)
    check_egraph(encoder.g, Generic(), draw(encoder.g, sizes), sizes)


def test_bitwise_keeps_to_the_bits():
    encoder = Encoder(1, 2, 6, **SMALL)
    done = check_egraph(encoder.g, Generic(), draw(encoder.g, {}), precision="bitwise")
    found = names(done)
    assert found["Neg"] and found["Sub"] and not found["Contract"] + found["Div"] + found["Softmax"]
    assert done.report.skipped["fuse.softmax"] == "class reals, precision bitwise"


def test_every_phase_saturates_and_growth_is_linear():
    sizes = []
    for layers in (1, 2, 3):
        report = saturate(Encoder(layers, 2, 6, **SMALL).g, Generic()).report
        assert [p.hit for p in report.phases] == [""] * len(report.phases), report.show()
        assert report.enodes < 1.5 * report.loaded
        sizes.append(report.enodes)
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]


WRONG = """;; A wrong law, for a test.
;;
;; ruleset:  wrong
;; class:    reals
;; phase:    contract
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset wrong)

;; false
{rule} :ruleset wrong :name "wrong/law")
"""


@pytest.mark.parametrize("rule", ["(rewrite (Sub a b) (Sub b a)", "(rewrite (Gelu x) (Silu x)",
                                  "(rewrite (Add a b) (Mul a b)"])
def test_a_wrong_rule_makes_classes_disagree(rule):
    encoder = Encoder(1, 2, 6, **SMALL)
    wrong = Compiler(read_rules(WRONG.format(rule=rule), "wrong.egg"))
    with pytest.raises(AssertionError, match="is off its class"):
        check_egraph(encoder.g, [Generic(), wrong], draw(encoder.g, {}))
