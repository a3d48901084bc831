"""Which sessions the model is asked about, and how a model that is away is probed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.model import Claim, PendingSession, Scope, SessionKey
from semrouter_memory.retain.scheduling import ExtractionScheduler, Pace, Trigger

from .conftest import MakeTurn

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ALICE = Scope("alice")
PAUSE = timedelta(seconds=30)
LATER = NOW + timedelta(minutes=10)


def pending(name: str, **fields: object) -> PendingSession:
    session = PendingSession(
        scope=ALICE, session_id=name, waiting=10, rules_pending=0, remember=False, last_observed_at=NOW, unsummarised=10
    )
    return replace(session, **fields)  # type: ignore[arg-type]


def key(name: str) -> SessionKey:
    return SessionKey(ALICE, name)


class Model:
    """Knows when it may be asked again."""

    retry_after: float | None = None


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def scheduler(model: Model) -> ExtractionScheduler:
    pace = Pace(quotes=True, model=True, batch_size=10, idle=timedelta(seconds=300))
    return ExtractionScheduler(pace, retry_after=lambda: model.retry_after, probe_pause=PAUSE)


@pytest.fixture
def claim(make_turn: MakeTurn) -> Claim:
    return claimed(make_turn, "a")


def claimed(make_turn: MakeTurn, session_id: str) -> Claim:
    turn = replace(make_turn("what is 1 plus 1?"), observed_at=NOW)
    return Claim(scope=ALICE, session_id=session_id, token="t", turns=(turn,))


def test_what_the_tick_found_is_asked_once(scheduler: ExtractionScheduler, claim: Claim) -> None:
    assert scheduler.due([pending("a")], NOW) == [key("a")]
    assert scheduler.trigger(claim, NOW) is Trigger.BATCH
    assert scheduler.trigger(claim, NOW) is None


def test_a_session_whose_turns_failed_waits_for_the_tick(scheduler: ExtractionScheduler, claim: Claim) -> None:
    failed = replace(claim, turns=(replace(claim.turns[0], attempts=1),), ended=True)
    assert scheduler.trigger(failed, NOW) is None
    assert scheduler.trigger(replace(claim, ended=True), NOW) is Trigger.END


def test_while_the_model_is_unavailable_no_session_asks_and_quotes_go_on(
    scheduler: ExtractionScheduler, model: Model, claim: Claim
) -> None:
    model.retry_after = 30
    sessions = [pending("a"), pending("b", rules_pending=1), pending("c", remember=True)]
    assert scheduler.due(sessions, NOW) == [key("b")]
    assert scheduler.trigger(replace(claim, ended=True), NOW) is None
    assert scheduler.is_blocked(key("a"), NOW)


def test_what_was_due_is_not_asked_once_the_model_is_unavailable(
    scheduler: ExtractionScheduler, model: Model, claim: Claim
) -> None:
    assert scheduler.due([pending("a")], NOW) == [key("a")]
    model.retry_after = 30
    assert scheduler.trigger(claim, NOW) is None


def test_after_the_pause_one_session_probes_each_time_another_one(
    scheduler: ExtractionScheduler, model: Model, make_turn: MakeTurn
) -> None:
    sessions = [pending("a"), pending("b"), pending("c", not_before=LATER)]
    probes = []
    now = NOW
    for _ in range(4):
        model.retry_after = 0
        (probe,) = scheduler.due(sessions, now)
        assert scheduler.trigger(claimed(make_turn, probe.session_id), now) is Trigger.BATCH
        probes.append(probe.session_id)
        model.retry_after = 30
        assert scheduler.due(sessions, now) == []
        now += PAUSE
    assert probes == ["a", "b", "a", "b"]


def test_a_probe_whose_outcome_is_unknown_is_not_followed_at_once_by_another(
    scheduler: ExtractionScheduler, model: Model
) -> None:
    model.retry_after = 0
    sessions = [pending("a"), pending("b")]
    assert scheduler.due(sessions, NOW) == [key("a")]
    assert scheduler.due(sessions, NOW + timedelta(seconds=1)) == [key("a")]
    assert scheduler.due(sessions, NOW + PAUSE) == [key("b")]


def test_once_the_model_is_available_all_are_asked_again(scheduler: ExtractionScheduler, model: Model) -> None:
    model.retry_after = 0
    scheduler.due([pending("a")], NOW)
    model.retry_after = None
    assert scheduler.due([pending("a"), pending("b")], NOW) == [key("a"), key("b")]


def test_a_session_whose_prompt_failed_cools_down_alone(scheduler: ExtractionScheduler, claim: Claim) -> None:
    scheduler.not_served(key("a"))
    scheduler.cool_down(key("a"), PAUSE, NOW)
    assert scheduler.due([pending("a"), pending("b")], NOW) == [key("b")]
    assert scheduler.trigger(replace(claim, ended=True), NOW) is None
    assert scheduler.due([pending("a"), pending("b")], NOW + PAUSE) == [key("a"), key("b")]


def test_a_session_that_ends_while_blocked_is_summed_up_once(scheduler: ExtractionScheduler, claim: Claim) -> None:
    ended = pending("a", ended=True)
    scheduler.not_served(key("a"))
    scheduler.cool_down(key("a"), PAUSE, NOW)
    assert scheduler.due([ended], NOW) == [key("a")]
    scheduler.summed_up(replace(claim, unsummarised=10))
    assert scheduler.due([ended], NOW) == []
    assert scheduler.due([ended], NOW + PAUSE) == [key("a")], "its turns still wait for the model"


def test_a_prompt_is_at_fault_only_when_the_model_answered_something_since_it_failed(
    scheduler: ExtractionScheduler,
) -> None:
    assert not scheduler.not_served(key("a"))
    assert not scheduler.not_served(key("a"))
    assert scheduler.is_suspect(key("a"))
    scheduler.answered(key("b"))
    assert not scheduler.is_suspect(key("a"))
    assert scheduler.not_served(key("a"))
    assert not scheduler.not_served(key("a")), "nothing was answered since"
    scheduler.answered(key("a"))
    assert scheduler.failures(key("a")) == 0


def test_a_clock_that_is_put_back_ends_the_pause(scheduler: ExtractionScheduler) -> None:
    scheduler.not_served(key("a"))
    scheduler.cool_down(key("a"), PAUSE, NOW)
    assert scheduler.due([pending("a")], NOW - timedelta(hours=6)) == [key("a")]
