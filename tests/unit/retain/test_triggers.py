"""When a session is due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.model import PendingSession, Scope
from semrouter_memory.retain.scheduling import Pace, Trigger

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
PACE = Pace(quotes=True, model=True, batch_size=10, idle=timedelta(seconds=300))
SESSION = PendingSession(
    scope=Scope("alice"), session_id="s", waiting=3, rules_pending=0, remember=False, last_observed_at=NOW
)

READ = replace(SESSION, waiting=0, unsummarised=3)
"""All its turns are extracted; it is not summed up."""


@pytest.mark.parametrize(
    ("session", "pace", "expected"),
    [
        (SESSION, PACE, None),
        (replace(SESSION, rules_pending=1), PACE, Trigger.QUOTES),
        (replace(SESSION, rules_pending=1), replace(PACE, quotes=False), None),
        (replace(SESSION, rules_pending=1, waiting=10), PACE, Trigger.QUOTES),
        (replace(SESSION, waiting=10), PACE, Trigger.BATCH),
        (replace(SESSION, waiting=9), PACE, None),
        (replace(SESSION, remember=True), PACE, Trigger.REMEMBER),
        (replace(SESSION, last_observed_at=NOW - timedelta(seconds=300)), PACE, Trigger.IDLE),
        (replace(SESSION, last_observed_at=NOW - timedelta(seconds=299)), PACE, None),
        (replace(SESSION, remember=True, not_before=NOW + timedelta(seconds=1)), PACE, None),
        (replace(SESSION, remember=True, not_before=NOW), PACE, Trigger.REMEMBER),
        (SESSION, replace(PACE, model=False), Trigger.QUOTES),
        (SESSION, replace(PACE, model=False, quotes=False), Trigger.QUOTES),
        (replace(SESSION, waiting=0), replace(PACE, model=False), None),
        (replace(SESSION, ended=True), PACE, Trigger.END),
        (replace(SESSION, ended=True, rules_pending=1), PACE, Trigger.QUOTES),
        (replace(SESSION, ended=True, not_before=NOW + timedelta(seconds=1)), PACE, None),
        (replace(READ, ended=True), PACE, Trigger.END),
        (replace(READ, ended=True), replace(PACE, model=False), Trigger.END),
        (replace(READ, last_observed_at=NOW - timedelta(seconds=300)), PACE, Trigger.IDLE),
        (READ, PACE, None),
        (replace(READ, unsummarised=0, last_observed_at=NOW - timedelta(seconds=300)), PACE, None),
    ],
)
def test_the_trigger_that_fires(session: PendingSession, pace: Pace, expected: Trigger | None) -> None:
    assert pace.due(session, NOW) is expected


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        (replace(SESSION, waiting=10, remember=True), None),
        (replace(SESSION, waiting=10, rules_pending=1), Trigger.QUOTES),
        (replace(SESSION, ended=True), None),
        (replace(SESSION, ended=True, unsummarised=3), Trigger.END),
        (replace(READ, last_observed_at=NOW - timedelta(seconds=300)), Trigger.IDLE),
    ],
)
def test_while_the_model_is_away_only_what_needs_none_is_due(session: PendingSession, expected: Trigger | None) -> None:
    assert PACE.due(session, NOW, model_blocked=True) is expected
