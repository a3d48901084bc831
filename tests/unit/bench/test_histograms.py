"""What the service counts of recall is read from its own exposition, between two looks."""

import pytest

from bench.histograms import TOGETHER, Counted, StepCounts, median_ms, read
from semrouter_memory.telemetry.metrics import Metrics


def exposed(metrics: Metrics) -> str:
    return metrics.exposition()[0].decode()


def test_only_what_was_counted_between_the_looks_counts() -> None:
    metrics = Metrics()
    metrics.recall_step_seconds.labels("embed").observe(0.4)
    before = read(exposed(metrics))
    for seconds in (0.0012, 0.0018):
        metrics.recall_step_seconds.labels("embed").observe(seconds)
        metrics.recall_seconds.observe(2 * seconds)
    counts = StepCounts()
    counts.add(before, read(exposed(metrics)))
    steps = counts.figures()

    assert steps["embed"].mean_ms == pytest.approx(1.5)
    assert steps["embed"].p50_ms == pytest.approx(1.5)
    assert steps["embed"].count == 2
    assert steps[TOGETHER].mean_ms == pytest.approx(3.0)


def test_a_step_that_was_not_taken_has_no_figure() -> None:
    metrics = Metrics()
    metrics.recall_step_seconds.labels("embed").observe(0.4)
    counts = StepCounts()
    counts.add(read(exposed(metrics)), read(exposed(metrics)))

    assert counts.figures() == {}


def test_the_median_beyond_the_last_bound_is_that_bound() -> None:
    assert median_ms(Counted(buckets={1.0: 0.0, float("inf"): 4.0}, count=4)) == 1000.0
