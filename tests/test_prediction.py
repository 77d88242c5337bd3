"""What ``benchmarks/prediction.py`` makes of predicted and measured times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def prediction(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import prediction
    yield prediction
    del sys.modules["prediction"]


def test_orders_are_compared_by_rank(prediction):
    assert prediction.spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert prediction.spearman([1, 2, 3], [9, 2, 1]) == pytest.approx(-1)
    assert prediction.spearman([1, 1, 2], [3, 3, 4]) == pytest.approx(1)
    assert prediction.spearman([1, 2], [1, 2]) is None
    assert prediction.spearman([1, 1, 1], [1, 2, 3]) is None


def test_pairs_whose_times_hardly_differ_are_in_no_order(prediction):
    assert prediction.ordered([1, 2, 3], [1.0, 1.05, 2.0]) == (2, 2)
    assert prediction.ordered([3, 2, 1], [1.0, 1.5, 2.0]) == (0, 3)
    assert prediction.ordered([1, 1], [1.0, 2.0]) == (0, 1)


def test_the_page_says_what_was_measured_where(prediction):
    rows = [{"workload": "mlp", "profile": "generic", "kernel": k, "predicted_s": p,
             "measured_s": 2e-6} for k, p in (("good", 2e-6), ("off", 1e-5), ("under", 1e-6))]
    plans = [{"workload": "mlp", "profile": "generic", "plans": 3, "pairs": 2, "right": 1,
              "spearman": 0.5, "lost": 0.25}]
    summary = prediction.summary(rows, plans, "generic")
    assert summary["error_median"] == 0.5 and summary["error_p90"] == pytest.approx(4)
    assert summary["pairs_right"] == 0.5 and summary["lost_most"] == 0.25
    page = prediction.text({"machine": "a CPU", "cores": 2, "threads": 2, "date": "2026-11-22",
                            "summary": [summary], "kernels": rows, "plans": plans})
    assert "a CPU, 2 cores, 2 threads, 2026-11-22" in page
    assert "| mlp | generic | 3 | 1 of 2 | 0.5 | 0.25 |" in page
    assert page.index("| mlp | off |") < page.index("| mlp | under |") < page.index("| mlp | good |")
