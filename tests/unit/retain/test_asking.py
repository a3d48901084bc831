"""Which sessions the model is asked about, and how a model that is away is probed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.model import Claim, PendingSession, Scope
from semrouter_memory.retain.asking import Asking
from semrouter_memory.retain.triggers import Pace, SessionKey, Trigger

from .conftest import MakeTurn

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ALICE = Scope("alice")
PAUSE = timedelta(seconds=30)
NONE = timedelta()
LATER = NOW + timedelta(minutes=10)


def pending(name: str, **fields: object) -> PendingSession:
    session = PendingSession(
        scope=ALICE, session_id=name, waiting=10, rules_pending=0, remember=False, last_observed_at=NOW, unsummarised=10
    )
    return replace(session, **fields)  # type: ignore[arg-type]


def key(name: str) -> SessionKey:
    return SessionKey(ALICE, name)


@pytest.fixture
def asking() -> Asking:
    pace = Pace(quotes=True, model=True, batch_size=10, idle=timedelta(seconds=300))
    return Asking(pace, probe_pause=PAUSE)


@pytest.fixture
def claim(make_turn: MakeTurn) -> Claim:
    turn = replace(make_turn("what is 1 plus 1?"), observed_at=NOW)
    return Claim(scope=ALICE, session_id="a", token="t", turns=(turn,))


def test_what_the_tick_found_is_asked_once(asking: Asking, claim: Claim) -> None:
    assert asking.look([pending("a")], NOW) == [key("a")]
    assert asking.trigger(claim, key("a"), NOW) is Trigger.BATCH
    assert asking.trigger(claim, key("a"), NOW) is None


def test_a_session_whose_turns_failed_waits_for_the_tick(asking: Asking, claim: Claim) -> None:
    failed = replace(claim, turns=(replace(claim.turns[0], attempts=1),), ended=True)
    assert asking.trigger(failed, key("a"), NOW) is None
    assert asking.trigger(replace(claim, ended=True), key("a"), NOW) is Trigger.END


def test_while_the_model_is_away_nobody_asks_and_the_rules_go_on(asking: Asking, claim: Claim) -> None:
    asking.went_away(NOW, PAUSE)
    sessions = [pending("a"), pending("b", rules_pending=1), pending("c", remember=True)]
    assert asking.look(sessions, NOW) == [key("b")]
    assert asking.trigger(replace(claim, ended=True), key("a"), NOW) is None
    assert asking.away


def test_after_the_pause_one_session_probes_each_time_another_one(asking: Asking, claim: Claim) -> None:
    sessions = [pending("a"), pending("b"), pending("c", not_before=LATER)]
    asking.went_away(NOW, NONE)
    probes = []
    now = NOW
    for _ in range(4):
        (probe,) = asking.look(sessions, now)
        assert asking.trigger(claim, probe, now) is Trigger.BATCH
        probes.append(probe.session_id)
        now += PAUSE
        asking.went_away(now, NONE)
    assert probes == ["a", "b", "a", "b"]


def test_a_probe_of_which_nothing_is_heard_is_not_followed_at_once_by_another(asking: Asking) -> None:
    asking.went_away(NOW, NONE)
    sessions = [pending("a"), pending("b")]
    assert asking.look(sessions, NOW) == [key("a")]
    assert asking.look(sessions, NOW + timedelta(seconds=1)) == [key("a")]
    assert asking.look(sessions, NOW + PAUSE) == [key("b")]


def test_once_the_model_answered_all_are_asked_again(asking: Asking) -> None:
    asking.went_away(NOW, NONE)
    asking.look([pending("a")], NOW)
    asking.answered()
    assert not asking.away
    assert asking.look([pending("a"), pending("b")], NOW) == [key("a"), key("b")]


def test_a_prompt_is_at_fault_only_when_the_model_answered_something_since_it_failed(asking: Asking) -> None:
    assert not asking.not_served(key("a"))
    assert not asking.not_served(key("a"))
    assert asking.doubtful(key("a"))
    asking.answered(key("b"))
    assert not asking.doubtful(key("a"))
    assert asking.not_served(key("a"))
    assert not asking.not_served(key("a")), "nothing was answered since"
    asking.answered(key("a"))
    assert asking.failures(key("a")) == 0


def test_a_clock_that_is_put_back_ends_the_pause(asking: Asking) -> None:
    asking.went_away(NOW, PAUSE)
    assert asking.look([pending("a")], NOW - timedelta(hours=6)) == [key("a")]
