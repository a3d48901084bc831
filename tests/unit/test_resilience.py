"""Delays between attempts; a circuit: what it admits, when it opens, when it closes."""

from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.resilience import Admission, Backoff, Circuit, Cooldown

BACKOFF = Backoff(first=30, longest=100)
FAILURES = 3
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
PASSES = Admission(allowed=True)
PROBE = Admission(allowed=True, probe=True)


@pytest.fixture
def circuit() -> Circuit:
    return Circuit(BACKOFF, failures=FAILURES)


@pytest.fixture
def opened(circuit: Circuit) -> Circuit:
    """Open since second 0, for 30 seconds."""
    for _ in range(FAILURES):
        circuit.failed(0, probe=False, jitter=0)
    return circuit


def waits(seconds: float) -> Admission:
    return Admission(allowed=False, wait_seconds=seconds)


def test_failures_in_a_row_open_it(circuit: Circuit) -> None:
    for _ in range(FAILURES - 1):
        circuit.failed(0, probe=False, jitter=0)
        assert circuit.admit(0) == PASSES
    circuit.failed(0, probe=False, jitter=0)
    assert circuit.is_open
    assert circuit.admit(10) == waits(20)


def test_a_success_between_failures_starts_the_count_anew(circuit: Circuit) -> None:
    for _ in range(4):
        circuit.failed(0, probe=False, jitter=0)
        circuit.failed(0, probe=False, jitter=0)
        circuit.succeeded()
    assert circuit.admit(0) == PASSES


def test_after_the_pause_one_call_probes_and_the_others_wait(opened: Circuit) -> None:
    assert opened.admit(29.5) == waits(0.5)
    assert opened.admit(30) == PROBE
    assert opened.admit(30) == waits(30)


def test_a_probe_that_succeeds_closes_it(opened: Circuit) -> None:
    assert opened.admit(30) == PROBE
    opened.succeeded()
    assert not opened.is_open
    assert opened.admit(30) == PASSES
    opened.failed(31, probe=False, jitter=0)
    assert opened.admit(31) == PASSES, "the count starts anew"


def test_the_pause_doubles_with_each_failed_probe_up_to_the_longest(opened: Circuit) -> None:
    now = 30.0
    for pause in (60, 100, 100):
        assert opened.admit(now) == PROBE
        opened.failed(now, probe=True, jitter=0)
        assert opened.admit(now) == waits(pause)
        now += pause


def test_after_a_recovery_the_pause_is_the_first_again(opened: Circuit) -> None:
    assert opened.admit(30) == PROBE
    opened.failed(30, probe=True, jitter=0)
    assert opened.admit(90) == PROBE
    opened.succeeded()
    for _ in range(FAILURES):
        opened.failed(100, probe=False, jitter=0)
    assert opened.admit(100) == waits(30)


def test_jitter_shortens_the_pause_by_a_quarter_at_most(circuit: Circuit) -> None:
    for _ in range(FAILURES):
        circuit.failed(0, probe=False, jitter=1)
    assert circuit.admit(0) == waits(22.5)


def test_a_call_from_before_that_fails_later_does_not_prolong_the_pause(opened: Circuit) -> None:
    opened.failed(29, probe=False, jitter=0)
    assert opened.admit(30) == PROBE


def test_a_call_from_before_that_succeeds_later_closes_it(opened: Circuit) -> None:
    opened.succeeded()
    assert opened.admit(1) == PASSES


def test_an_abandoned_probe_leaves_the_place_to_the_next_call(opened: Circuit) -> None:
    assert opened.admit(30) == PROBE
    opened.abandoned(probe=False)
    assert opened.admit(30) == waits(30), "another call's end is not the probe's"
    opened.abandoned(probe=True)
    assert opened.admit(30) == PROBE


def test_a_suspect_circuit_admits_calls_until_a_report_clears_it(circuit: Circuit) -> None:
    circuit.suspect()
    assert circuit.is_suspect
    assert circuit.admit(0) == PASSES
    circuit.succeeded()
    assert not circuit.is_suspect


def test_an_open_circuit_is_not_suspect(opened: Circuit) -> None:
    opened.suspect()
    assert not opened.is_suspect
    fresh = Circuit(BACKOFF)
    fresh.suspect()
    fresh.failed(0, jitter=0)
    assert (fresh.is_open, fresh.is_suspect) == (True, False)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 10), (4, 80), (8, 900), (10_000, 900)])
def test_the_delay_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    assert Backoff(first=5, longest=900).delay(failures, jitter=0) == seconds


@pytest.mark.parametrize(("spread", "seconds"), [(0.25, 6), (0.5, 4), (1, 0)])
def test_jitter_removes_the_spread_at_most(spread: float, seconds: float) -> None:
    assert Backoff(first=8, longest=900, spread=spread).delay(0, jitter=1) == seconds


def test_a_cool_down_ends_with_its_time_or_when_the_clock_is_set_back() -> None:
    cooldown = Cooldown.of(timedelta(seconds=30), NOW)
    assert cooldown.active(NOW)
    assert not cooldown.active(NOW + timedelta(seconds=30))
    assert not cooldown.active(NOW - timedelta(seconds=1))
