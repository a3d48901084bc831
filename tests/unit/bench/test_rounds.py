"""Ratios are taken within a round, and the median of the rounds counts."""

import pytest

from bench.figures import NOOP, PRODUCT, Times, allowed_per_second
from bench.parts import BareTimes
from bench.rounds import Round, Sample, path_figures, throughput_figures


def sample(ms: float, *, cpu: float = 0.01, seconds: float = 1.0, with_memory: int = 10) -> Sample:
    return Sample(
        times=[ms] * 10,
        requests=10,
        seconds=seconds,
        cpu=cpu,
        cpu_with_learning=2 * cpu,
        with_memory=with_memory,
    )


def round_(slowness: float, *, ratio: float = 1.5) -> Round:
    """A round in which everything takes so much longer; the floor is 3 ms, with the search 4 ms."""
    bare = BareTimes(embedding=[1.0 * slowness] * 10, embedding_cpu_ms=1.0, search=[1.0 * slowness] * 10)
    samples = {NOOP: sample(2.0 * slowness), PRODUCT: sample(3.0 * slowness * ratio, cpu=0.03)}
    return Round(samples=samples, bare=bare, cold=[(8.0 * slowness, True)])


def test_a_machine_that_becomes_ten_times_slower_between_rounds_changes_no_ratio() -> None:
    figures = path_figures([round_(1.0), round_(10.0), round_(3.0)])

    assert (figures.active.low, figures.active.median, figures.active.high) == pytest.approx((1.5, 1.5, 1.5))
    assert figures.cold is not None
    assert figures.cold.median == pytest.approx(2.0)


def test_one_round_that_went_wrong_does_not_move_the_ratio() -> None:
    rounds = [round_(1.0), round_(1.0, ratio=20.0), round_(1.0)]

    assert path_figures(rounds).active.median == pytest.approx(1.5)


def test_cpu_time_and_memories_are_those_of_one_request() -> None:
    product = path_figures([round_(1.0), round_(1.0)]).chains[PRODUCT]

    assert product.cpu_ms == pytest.approx(3.0)
    assert product.cpu_with_learning_ms == pytest.approx(6.0)
    assert product.with_memory == pytest.approx(1.0)


def test_without_users_who_were_away_there_is_no_figure_of_them() -> None:
    warm = round_(1.0)
    warm.cold.clear()
    figures = path_figures([warm])

    assert figures.cold is None
    assert figures.cold_ms is None


def test_the_floor_allows_what_the_no_op_service_does_with_one_embedding_more() -> None:
    assert allowed_per_second(1_000.0, cpu_ms=0.5, further_cpu_ms=1.5) == pytest.approx(250.0)


def test_the_products_share_is_of_what_the_floor_allows() -> None:
    # 10 requests a second at 1 ms each, and 1 ms for an embedding: 5.
    both = [round_(1.0), round_(2.0)]
    figures = throughput_figures(both, connections=32)

    assert figures.allowed == pytest.approx(5.0)
    assert figures.share.median == pytest.approx(2.0)


def test_percentiles_say_of_how_many() -> None:
    measured = Times.of([float(number) for number in range(1, 102)])

    assert (measured.p50, measured.p95, measured.p99, measured.count) == (51.0, 96.0, 100.0, 101)
    assert Times.of([3.0]) == Times(3.0, 3.0, 3.0, 1)
