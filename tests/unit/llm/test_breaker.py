"""A circuit: what it lets pass, when it opens, when it closes."""

import pytest

from semrouter_memory.llm.breaker import Admission, Breaker, Limits

LIMITS = Limits(failures=3, first_seconds=30, longest_seconds=100)
PASSES = Admission(allowed=True)
PROBE = Admission(allowed=True, probe=True)


@pytest.fixture
def breaker() -> Breaker:
    return Breaker(LIMITS)


@pytest.fixture
def opened(breaker: Breaker) -> Breaker:
    """Open since second 0, for 30 seconds."""
    for _ in range(LIMITS.failures):
        breaker.failed(0, probe=False, jitter=0)
    return breaker


def waits(seconds: float) -> Admission:
    return Admission(allowed=False, wait_seconds=seconds)


def test_failures_in_a_row_open_it(breaker: Breaker) -> None:
    for _ in range(LIMITS.failures - 1):
        breaker.failed(0, probe=False, jitter=0)
        assert breaker.admit(0) == PASSES
    breaker.failed(0, probe=False, jitter=0)
    assert breaker.is_open
    assert breaker.admit(10) == waits(20)


def test_a_success_between_failures_starts_the_count_anew(breaker: Breaker) -> None:
    for _ in range(4):
        breaker.failed(0, probe=False, jitter=0)
        breaker.failed(0, probe=False, jitter=0)
        breaker.succeeded()
    assert breaker.admit(0) == PASSES


def test_after_the_pause_one_call_probes_and_the_others_wait(opened: Breaker) -> None:
    assert opened.admit(29.5) == waits(0.5)
    assert opened.admit(30) == PROBE
    assert opened.admit(30) == waits(30)


def test_a_probe_that_succeeds_closes_it(opened: Breaker) -> None:
    assert opened.admit(30) == PROBE
    opened.succeeded()
    assert not opened.is_open
    assert opened.admit(30) == PASSES
    opened.failed(31, probe=False, jitter=0)
    assert opened.admit(31) == PASSES, "the count starts anew"


def test_the_pause_doubles_with_each_failed_probe_up_to_the_longest(opened: Breaker) -> None:
    now = 30.0
    for pause in (60, 100, 100):
        assert opened.admit(now) == PROBE
        opened.failed(now, probe=True, jitter=0)
        assert opened.admit(now) == waits(pause)
        now += pause


def test_after_a_recovery_the_pause_is_the_first_again(opened: Breaker) -> None:
    assert opened.admit(30) == PROBE
    opened.failed(30, probe=True, jitter=0)
    assert opened.admit(90) == PROBE
    opened.succeeded()
    for _ in range(LIMITS.failures):
        opened.failed(100, probe=False, jitter=0)
    assert opened.admit(100) == waits(30)


def test_jitter_shortens_the_pause_by_a_quarter_at_most(breaker: Breaker) -> None:
    for _ in range(LIMITS.failures):
        breaker.failed(0, probe=False, jitter=1)
    assert breaker.admit(0) == waits(22.5)


def test_a_call_from_before_that_fails_later_does_not_prolong_the_pause(opened: Breaker) -> None:
    opened.failed(29, probe=False, jitter=0)
    assert opened.admit(30) == PROBE


def test_a_call_from_before_that_succeeds_later_closes_it(opened: Breaker) -> None:
    opened.succeeded()
    assert opened.admit(1) == PASSES


def test_an_abandoned_probe_leaves_the_place_to_the_next_call(opened: Breaker) -> None:
    assert opened.admit(30) == PROBE
    opened.abandoned(probe=False)
    assert opened.admit(30) == waits(30), "another call's end is not the probe's"
    opened.abandoned(probe=True)
    assert opened.admit(30) == PROBE
