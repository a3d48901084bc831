"""The benchmark measures with the same workload in every run, keeps to the bound it measures, and says what it missed."""

from dataclasses import replace

import pytest

from semrouter_memory.bench import footprint, tables
from semrouter_memory.bench.figures import ChainFigures, Footprint, Measured, ProcessFigures
from semrouter_memory.bench.workload import questions, statements

_MIB = 1024 * 1024


def times(p50: float) -> Measured:
    return Measured(p50, 2 * p50)


CHAIN = ChainFigures(
    envoy=times(0.3),
    noop=times(1.2),
    embedding=times(0.8),
    search=times(2.0),
    product=times(2.9),
    envoy_token=times(0.1),
    noop_token=times(0.2),
    product_token=times(0.2),
)
PROCESS = ProcessFigures(embedding=times(2.0), active={200: times(3), 1_000: times(3.7), 10_000: times(7.4)}, first={})
FOOTPRINT = Footprint(
    users=10,
    memories=200,
    bound_bytes=8 * _MIB,
    counted_bytes=7 * _MIB,
    most_bytes=8 * _MIB,
    resident_bytes=9 * _MIB,
    kept=10,
)


def test_every_run_measures_with_the_same_statements_and_questions() -> None:
    assert list(statements(500, seed=3)) == list(statements(500, seed=3))
    assert questions(50) == questions(50)


def test_another_seed_gives_other_statements_of_which_hardly_any_is_there_twice() -> None:
    ours, others = set(statements(1_000, seed=1)), set(statements(1_000, seed=2))

    assert len(ours) > 950
    assert len(ours & others) < 20


def test_questions_have_four_to_fifteen_words() -> None:
    assert {len(question.split()) for question in questions(500)} <= set(range(4, 16))


def test_figures_that_reach_all_targets_miss_none() -> None:
    assert tables.missed(CHAIN, PROCESS, [FOOTPRINT]) == []


def test_what_is_missed_is_named_and_times_are_compared_with_the_embedding_of_the_same_run() -> None:
    slow = replace(PROCESS, active={**PROCESS.active, 1_000: times(3.8), 10_000: times(7.6)})
    large = replace(FOOTPRINT, resident_bytes=401 * _MIB, most_bytes=9 * _MIB)

    assert tables.missed(replace(CHAIN, product=times(3.1)), slow, [FOOTPRINT, large]) == [
        "product to floor",
        "recall with 1,000 memories",
        "recall with 10,000 memories",
        "memory",
        "the working set's bound",
    ]


async def test_more_users_than_fit_leave_the_working_set_within_its_bound() -> None:
    measured = await footprint.measured(users=30, memories=100, max_mb=1)

    assert measured.most_bytes <= measured.bound_bytes
    assert 0 < measured.kept < measured.users
    assert measured.counted_bytes == pytest.approx(measured.bound_bytes, rel=0.2)


async def test_users_that_fit_are_all_at_hand() -> None:
    measured = await footprint.measured(users=12, memories=20, max_mb=8)

    assert measured.kept == measured.users
