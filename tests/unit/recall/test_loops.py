"""What is kept between the steps of a tool loop."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.model import Hit, Reason, RecallOptions, Scope
from semrouter_memory.recall import loops
from semrouter_memory.recall.loops import Choice, TurnChoices, TurnKey

NOW = datetime(2026, 3, 20, tzinfo=UTC)
KEY = TurnKey(Scope("alice"), "turn", RecallOptions(limit=5, threshold=0.6))


def test_a_choice_is_found_until_it_is_too_old(make_hit: Callable[..., Hit]) -> None:
    choices = TurnChoices[Choice]()
    choice = Choice(Reason.INJECTED, (make_hit("fact"),))
    choices.keep(KEY, choice, NOW)

    assert choices.find(KEY, NOW + timedelta(minutes=10)) is choice
    assert choices.find(KEY, NOW + timedelta(minutes=10, seconds=1)) is None
    assert choices.find(KEY, NOW - timedelta(days=1)) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, scope=Scope("bob")),
        replace(KEY, scope=Scope("alice", project_id="p")),
        replace(KEY, loop_key="other"),
        replace(KEY, options=RecallOptions(limit=4, threshold=0.6)),
        replace(KEY, options=RecallOptions(limit=5, threshold=0.5)),
        replace(KEY, options=RecallOptions(limit=5, threshold=0.6, types=frozenset())),
    ],
)
def test_another_user_project_turn_or_setting_is_another_choice(other: TurnKey) -> None:
    choices = TurnChoices[Choice]()
    choices.keep(KEY, Choice(Reason.BELOW_THRESHOLD), NOW)

    assert choices.find(other, NOW) is None


def test_the_oldest_choice_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_TURNS", 2)
    choices = TurnChoices[Choice]()
    for name in ("first", "second", "first", "third"):
        choices.keep(replace(KEY, loop_key=name), Choice(Reason.BELOW_THRESHOLD), NOW)

    kept = [name for name in ("first", "second", "third") if choices.find(replace(KEY, loop_key=name), NOW)]
    assert kept == ["first", "third"]


def test_what_is_too_old_is_not_kept_in_memory() -> None:
    choices = TurnChoices[Choice]()
    for minutes in (0, 1, 10):
        key = replace(KEY, loop_key=str(minutes))
        choices.keep(key, Choice(Reason.BELOW_THRESHOLD), NOW + timedelta(minutes=minutes))
    choices.keep(KEY, Choice(Reason.BELOW_THRESHOLD), NOW + timedelta(minutes=11, seconds=1))

    assert [key.loop_key for key in choices._choices] == ["10", "turn"]
