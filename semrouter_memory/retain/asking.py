"""When a model may be asked about a session: its triggers, and a model that is away.

Strategy. A look at all pending sessions (the tick) and a look at one claimed session (the worker) share what is known.
While the model is away nobody asks it but one session at a time, the probe, which the tick chooses when the pause is
over: each time another one, so that a session whose turns the model cannot bear does not keep it away from all.

A prompt that was not served is suspected, no more: an attempt is counted only when the model answered something else
since the same session's last failure, so that an outage, however long and however many processes see it, costs none.

A session that comes to its end meanwhile keeps its end until its turns are read. What can be told without a model
is written once, and again when it goes on.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from semrouter_memory.model import Claim, PendingSession
from semrouter_memory.retain.idling import Idling
from semrouter_memory.retain.triggers import Pace, Rest, SessionKey, Trigger, due, end_of, wanted

_MAX_SUSPECTS = 1_024
_MAX_SUMMED_UP = 4_096
_DOUBTFUL = 2
"""Failures in a row of one session after which it is asked first whether the model answers at all."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A session that the model did not serve: how often in a row, and how many answers it had given by then."""

    failures: int
    answers: int


class Asking:
    """Remembers which sessions are due for the model.

    Args:
        probe_pause: between two probes of whose outcome nothing is known yet.
        idling: knows how long sessions have been idle.
    """

    def __init__(self, pace: Pace, *, probe_pause: timedelta, idling: Idling | None = None) -> None:
        self._pace = pace
        self._idling = idling or Idling()
        self._probe_pause = probe_pause
        self._due: dict[SessionKey, Trigger] = {}
        self._rest: Rest | None = None
        self._answers = 0
        self._suspects: OrderedDict[SessionKey, _Suspect] = OrderedDict()
        self._summed_up: OrderedDict[SessionKey, int] = OrderedDict()
        self._probe: tuple[SessionKey, Trigger] | None = None
        self._probed: set[SessionKey] = set()

    @property
    def away(self) -> bool:
        return self._rest is not None

    # -- the tick ------------------------------------------------------------------------------------------------------

    def look(self, sessions: Sequence[PendingSession], now: datetime) -> list[SessionKey]:
        """The sessions to work on now."""
        self._due.clear()
        found: list[SessionKey] = []
        sessions = [self._timed(session, now) for session in sessions]
        for session in sessions:
            if trigger := due(session, now, self._pace, model_away=self.away):
                key = SessionKey(session.scope, session.session_id)
                if trigger is not Trigger.QUOTES and self.is_summed_up(key, session.unsummarised):
                    continue
                found.append(key)
                if session.waiting and trigger is not Trigger.QUOTES and not self.away:
                    self._due[key] = trigger
        if self._rest is not None and not self._rest.holds(now) and self._choose_probe(sessions, now):
            self._rest = Rest.of(self._probe_pause, now)
        return found if self._probe is None else list(dict.fromkeys((*found, self._probe[0])))

    def _timed(self, session: PendingSession, now: datetime) -> PendingSession:
        key = SessionKey(session.scope, session.session_id)
        return replace(session, last_observed_at=self._idling.since(key, session.last_observed_at, now))

    def wanted(self, sessions: Sequence[PendingSession], now: datetime) -> int:
        """How many sessions have work, whether it can be done now or waits to be tried again."""
        return sum(wanted(self._timed(session, now), now, self._pace) is not None for session in sessions)

    def _choose_probe(self, sessions: Sequence[PendingSession], now: datetime) -> bool:
        wanting: dict[SessionKey, Trigger] = {}
        for session in sessions:
            trigger = due(session, now, self._pace)
            if session.waiting and trigger is not None and trigger is not Trigger.QUOTES:
                wanting[SessionKey(session.scope, session.session_id)] = trigger
        if not wanting:
            return False
        if self._probed.issuperset(wanting):
            self._probed.clear()
        key = next(key for key in wanting if key not in self._probed)
        self._probed.add(key)
        self._probe = (key, wanting[key])
        return True

    # -- the worker ----------------------------------------------------------------------------------------------------

    def trigger(self, claim: Claim, key: SessionKey, now: datetime, *, wished: bool = False) -> Trigger | None:
        """Why the model is asked about the claimed turns now, None when it is not.

        After a failure only a tick can tell, since it knows the back-off's end.

        Args:
            wished: one of the turns that nobody has read before asks to remember something.
        """
        if self._probe is not None and self._probe[0] == key:
            trigger, self._probe = self._probe[1], None
            return trigger
        if trigger_of_tick := self._due.pop(key, None):
            return trigger_of_tick
        if not self.may_ask(claim):
            return None
        if wished:
            return Trigger.REMEMBER
        if len(claim.turns) >= self._pace.batch_size:
            return Trigger.BATCH
        return self.ending(claim, claim.turns[-1].observed_at, now)

    def may_ask(self, claim: Claim) -> bool:
        """Whether anything but a tick's choice may ask about these turns."""
        return not self.away and not any(turn.attempts for turn in claim.turns)

    def ending(self, claim: Claim, last_observed_at: datetime, now: datetime) -> Trigger | None:
        since = self._idling.since(SessionKey(claim.scope, claim.session_id), last_observed_at, now)
        return end_of(ended=claim.ended, last_observed_at=since, now=now, pace=self._pace)

    def is_summed_up(self, key: SessionKey, unsummarised: int) -> bool:
        """Whether the session, with no turn more, was summed up while the model is away."""
        return self._summed_up.get(key) == unsummarised

    # -- what came of it -----------------------------------------------------------------------------------------------

    def summed_up(self, claim: Claim, key: SessionKey) -> None:
        """The session's end: its episode is written. With turns that still wait for the model, it is due once more."""
        if not claim.turns:
            self._suspects.pop(key, None)
            return
        self._summed_up[key] = claim.unsummarised
        while len(self._summed_up) > _MAX_SUMMED_UP:
            self._summed_up.popitem(last=False)

    def went_away(self, now: datetime, pause: timedelta) -> None:
        self._rest = Rest.of(pause, now)
        self._due.clear()

    def answered(self, key: SessionKey | None = None) -> None:
        """The model is there, whatever it said.

        Args:
            key: the session that it answered for.
        """
        self._answers += 1
        self._rest = self._probe = None
        self._probed.clear()
        self._summed_up.clear()
        if key is not None:
            self._suspects.pop(key, None)

    def not_served(self, key: SessionKey) -> bool:
        """The session's prompt was sent and not served; returns whether the prompt is at fault: others were served."""
        failures, before = self.failures(key), self._suspects.pop(key, None)
        self._suspects[key] = _Suspect(failures + 1, self._answers)
        while len(self._suspects) > _MAX_SUSPECTS:
            self._suspects.popitem(last=False)
        return before is not None and before.answers < self._answers

    def failures(self, key: SessionKey) -> int:
        """How often in a row the session's prompt was not served."""
        suspect = self._suspects.get(key)
        return suspect.failures if suspect else 0

    def doubtful(self, key: SessionKey) -> bool:
        """Whether nobody knows if it is the session's prompt or the model: something else should be asked first."""
        suspect = self._suspects.get(key)
        return suspect is not None and suspect.failures >= _DOUBTFUL and suspect.answers == self._answers
