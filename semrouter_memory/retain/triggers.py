"""When a session's waiting turns are extracted. Pure.

The rules run as soon as there is something that they have not seen. A model is asked when one of its triggers fires;
after a failure it waits for the back-off to end.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from semrouter_memory.model import PendingSession

_MAX_DOUBLINGS = 30
_SPREAD = 0.25


class Trigger(StrEnum):
    """Why a session is due."""

    RULES = "rules"
    """Turns that the rule extractor has not seen; or, without a model, turns that are only to be ended."""
    BATCH = "batch"
    REMEMBER = "remember"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings that triggers look at.

    Attributes:
        rules: the rule extractor is on.
        model: a model is configured.
        batch_size: the model is asked every so many turns.
        idle: a session is at its end when nothing was said for so long.
    """

    rules: bool
    model: bool
    batch_size: int
    idle: timedelta


def due(session: PendingSession, now: datetime, pace: Pace) -> Trigger | None:
    """The trigger that fires for this session now, or None."""
    if not session.waiting or (session.not_before is not None and now < session.not_before):
        return None
    if not pace.model or (pace.rules and session.rules_pending):
        return Trigger.RULES
    if session.remember:
        return Trigger.REMEMBER
    if session.waiting >= pace.batch_size:
        return Trigger.BATCH
    return Trigger.IDLE if now - session.last_observed_at >= pace.idle else None


def backoff(attempts: int, *, first: timedelta, longest: timedelta, jitter: float) -> timedelta:
    """The pause after so many failures: doubled each time, spread so that sessions do not return together.

    Args:
        attempts: failures before this one.
        jitter: 0..1; takes away up to a quarter.
    """
    pause = min(first * (1 << min(attempts, _MAX_DOUBLINGS)), longest)
    return pause * (1 - _SPREAD * jitter)
