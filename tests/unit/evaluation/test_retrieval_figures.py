"""The figures of `eval retrieval`, computed by hand on tiny cases."""

from collections.abc import Iterable
from io import StringIO
from math import log2

import pytest
from rich.console import Console

from semrouter_memory.evaluation.retrieval import (
    Asked,
    LabelledQuery,
    Scored,
    injected_figures,
    ranking_figures,
    result_of,
    step_times,
)
from semrouter_memory.evaluation.retrieval_run import THRESHOLDS, print_figures, print_sweep


def asked(
    ranking: Iterable[str] = (),
    injected: Iterable[str] = (),
    *,
    gold: Iterable[str] = (),
    acceptable: Iterable[str] = (),
    kind: str = "direct",
    failed: str = "",
    **steps_ms: float,
) -> Asked:
    """What recall gave; each letter is a memory's id."""
    return Asked(
        query=LabelledQuery(id="q", kind=kind, text="?", gold=frozenset(gold), acceptable=frozenset(acceptable)),
        ranking=tuple(Scored(name, 0.9 - at / 100) for at, name in enumerate(ranking)),
        injected=tuple(injected),
        steps_ms=steps_ms,
        failed=failed,
    )


def test_recall_of_the_ranking_is_the_mean_share_of_gold_among_the_first() -> None:
    figures = ranking_figures([asked("abcdefg", gold="afz"), asked("xyz", gold="x")])
    assert figures["recall@5"] == pytest.approx((1 / 3 + 1) / 2)
    assert figures["recall@10"] == pytest.approx((2 / 3 + 1) / 2)


def test_recall_at_10_ends_with_the_tenth() -> None:
    assert ranking_figures([asked("abcdefghijk", gold="jk")])["recall@10"] == pytest.approx(0.5)


def test_ndcg_weighs_gold_by_its_place_among_the_first_five() -> None:
    gain = 1 / log2(3) + 1 / log2(6)  # places 2 and 5
    assert ranking_figures([asked("abcdef", gold="bef")])["ndcg@5"] == pytest.approx(
        gain / (1 + 1 / log2(3) + 1 / log2(4))
    )


def test_ndcg_is_one_when_more_is_gold_than_has_a_place() -> None:
    assert ranking_figures([asked("abcdefg", gold="abcdefg")])["ndcg@5"] == pytest.approx(1)


def test_mrr_is_the_mean_of_one_over_the_first_golds_place() -> None:
    assert ranking_figures([asked("abcd", gold="cd"), asked("abcd", gold="z")])["mrr"] == pytest.approx(1 / 6)


def test_queries_without_gold_are_in_no_figure_of_the_ranking() -> None:
    alone = ranking_figures([asked("ab", gold="a")])
    beside = ranking_figures([asked("ab", gold="a"), asked("ab")])
    assert alone == beside == dict.fromkeys(("recall@5", "recall@10", "ndcg@5", "mrr"), 1)


def test_precision_is_over_all_queries_together_and_negatives_count() -> None:
    # right: a, b; wrong: x, y (for a query with gold), z (for a negative one).
    injected = injected_figures([asked("", "abxy", gold="abc"), asked("", "z"), asked("", "")])
    assert injected["precision"] == pytest.approx(2 / 5)
    assert injected["recall"] == pytest.approx(2 / 3)
    assert injected["per_query"] == pytest.approx(5 / 3)


def test_what_is_acceptable_is_neither_right_nor_wrong_but_injected() -> None:
    injected = injected_figures([asked("", "ab", gold="a", acceptable="b"), asked("", "c", acceptable="c")])
    assert injected["precision"] == 1
    assert injected["false_injection"] == 0
    assert injected["per_query"] == pytest.approx(1.5)


def test_false_injection_is_the_share_of_negative_queries_that_got_something_wrong() -> None:
    negatives = [asked("", "xy"), asked("", "ac", acceptable="a"), asked("", "a", acceptable="a"), asked("", "")]
    assert injected_figures([*negatives, asked("", "x", gold="a")])["false_injection"] == pytest.approx(2 / 4)


def test_a_figure_with_nothing_to_count_is_none() -> None:
    assert injected_figures([asked(gold="a")])["false_injection"] is None
    assert injected_figures([asked(gold="a")])["precision"] is None
    assert set(ranking_figures([asked()]).values()) == {None}
    assert injected_figures([asked()])["recall"] is None


def test_a_steps_time_is_over_the_queries_in_which_it_ran() -> None:
    times = step_times([asked(embed=1.0, search=5.0), asked(embed=3.0), asked()])
    assert times == {"embed": {"p50": 2.0, "p95": pytest.approx(2.9)}, "search": {"p50": 5.0, "p95": 5.0}}


def test_the_result_has_these_keys_and_no_others() -> None:
    everything = [
        asked("ab", "a", gold="a", kind="direct", embed=1.0),
        asked("ba", "", gold="a", kind="vague", embed=2.0),
        asked("ab", "b", kind="negative", embed=3.0),
    ]
    assert result_of("set.jsonl", everything) == {
        "file": "set.jsonl",
        "queries": 3,
        "recall@5": 1.0,
        "recall@10": 1.0,
        "ndcg@5": round((1 + 1 / log2(3)) / 2, 4),
        "mrr": 0.75,
        "injected": {"per_query": 0.6667, "precision": 0.5, "recall": 0.5, "false_injection": 1.0},
        "kinds": {
            "direct": {"queries": 1, "recall@5": 1.0, "injected_recall": 1.0},
            "vague": {"queries": 1, "recall@5": 1.0, "injected_recall": 0.0},
            "negative": {"queries": 1, "recall@5": None, "injected_recall": None},
        },
        "ms": {"embed": {"p50": 2.0, "p95": 2.9}},
    }


def _printed(*everything: Asked) -> str:
    text = StringIO()
    print_figures(Console(file=text, width=100), "set [b].jsonl", everything)
    return text.getvalue()


def test_the_tables_have_a_row_for_each_kind_and_one_for_all() -> None:
    printed = _printed(asked("a", "a", gold="a", kind="[i]odd"), asked("", "b", kind="negative"))
    assert "set [b].jsonl" in printed
    assert printed.count("[i]odd") == printed.count("negative") == 2
    assert printed.count("│ all") == 2


def test_a_file_without_negative_queries_is_said_to_be_one() -> None:
    note = "false injection is not measured"
    assert note in _printed(asked("a", gold="a"))
    assert note not in _printed(asked("a"))


def test_queries_that_failed_are_said_with_their_reason() -> None:
    assert "internal_error: 2, timeout: 1" in _printed(
        asked(failed="internal_error"), asked(failed="timeout"), asked(failed="internal_error")
    )
    assert "Failed" not in _printed(asked())


def test_the_sweep_goes_from_zero_to_one_in_steps_of_a_twentieth() -> None:
    assert THRESHOLDS[:3] == (0.0, 0.05, 0.1)
    assert (THRESHOLDS[-1], len(THRESHOLDS)) == (1.0, 21)


def test_a_point_of_the_sweep_is_what_was_injected_with_its_threshold() -> None:
    points = {0.5: injected_figures([asked("ab", "ab", gold="a")]), 0.9: injected_figures([asked("ab", "a", gold="a")])}
    text = StringIO()
    print_sweep(Console(file=text, width=100), points, configured=0.6)
    assert "0.6 is configured" in text.getvalue()
    rows = [line.split("│") for line in text.getvalue().splitlines() if "│ 0." in line]
    assert [(row[1].strip(), row[3].strip()) for row in rows] == [("0.50", "0.50"), ("0.90", "1.00")]
