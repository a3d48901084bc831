"""When a session is due. Pure.

Quotes are taken as soon as there is a turn that was not read for them. A model is asked when one of its triggers fires;
after a failure it waits for the back-off to end, and while the model is unavailable nothing is due for it. A session's end
is summed up when it was announced, or when the session has been idle for long enough.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from semrouter_memory.model import PendingSession


class Trigger(StrEnum):
    """Why a session is due."""

    QUOTES = "quotes"
    """Turns that were not read for quotes; or, without a model, turns that are only to be ended."""
    BATCH = "batch"
    REMEMBER = "remember"
    DRIFT = "drift"
    """The topic has changed."""
    IDLE = "idle"
    END = "end"
    """The session's end was announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings that triggers look at.

    Attributes:
        quotes: quotes are stored.
        model: a model is configured.
        batch_size: the model is asked every so many turns.
        idle: a session is at its end when nothing was said for so long.
    """

    quotes: bool
    model: bool
    batch_size: int
    idle: timedelta


def due(session: PendingSession, now: datetime, pace: Pace, *, model_away: bool = False) -> Trigger | None:
    """The trigger that fires for this session now, or None.

    Args:
        model_away: the model is left alone for a while: only what needs none is due.
    """
    if session.not_before is not None and now < session.not_before:
        return None
    trigger = wanted(session, now, pace)
    if model_away and session.waiting and trigger is not Trigger.QUOTES:
        return _ending(session, now, pace) if session.unsummarised else None
    return trigger


def wanted(session: PendingSession, now: datetime, pace: Pace) -> Trigger | None:
    """The trigger that would fire without a back-off and with a model that is there."""
    ending = _ending(session, now, pace)
    if not session.waiting:
        return ending if session.unsummarised else None
    if not pace.model or (pace.quotes and session.rules_pending):
        return Trigger.QUOTES
    if session.remember:
        return Trigger.REMEMBER
    return Trigger.BATCH if session.waiting >= pace.batch_size else ending


def _ending(session: PendingSession, now: datetime, pace: Pace) -> Trigger | None:
    return end_of(ended=session.ended, last_observed_at=session.last_observed_at, now=now, pace=pace)


def end_of(*, ended: bool, last_observed_at: datetime, now: datetime, pace: Pace) -> Trigger | None:
    """How the session has come to its end, None while it has not."""
    if ended:
        return Trigger.END
    return Trigger.IDLE if now - last_observed_at >= pace.idle else None
