"""When the extraction model is asked about a session.

Strategy. The tick, which looks at all pending sessions, and the worker, which looks at one claimed session, share one state.
Whether the model is available is the model's own knowledge (its circuit). While it is not, the tick chooses one session at
a time as the probe, each time another one, so that a session whose turns the model cannot process does not block all others.

A prompt that failed makes its own session wait. It counts no attempt unless the model answered another prompt between two
failures of the session, so an outage costs none, however long it takes and however many processes see it.

A session that ends while the model is not asked about it keeps its end until its turns are read. An episode that needs no
model is written once meanwhile, and again when the session goes on.

For how long a session has been idle: when its last turn is seen first, its age is read from the clock, since a process that
starts has nothing else. From then on the monotonic clock counts. So a session neither ends nor stays open because the clock
was set. A turn from the future, which a clock has given that was set back since, is as old as the time for which it has been
known.

Quotes are taken as soon as there is a turn that was not read for them. A model is asked when one of its triggers fires;
after a failure it waits for the back-off to end, and while the model is unavailable nothing is due for it. A session's end
is summed up when it was announced, or when the session has been idle for long enough.

For the change of topic each turn is embedded once. A topic is the mean of its turns' vectors. One turn that is unlike it may be
an aside; a second one in a row, when the topic has had a few turns to be one, is a change, and the two begin the next topic.
Turns that say little ("ok thanks", "and the second one?") are near nothing and count for nothing.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

import numpy as np
from cachetools import LRUCache

from semrouter_memory.errors import UnavailableError
from semrouter_memory.language.phrases import words_of
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.words import content_words
from semrouter_memory.model import Claim, LoggedTurn, PendingSession, SessionKey, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.resilience import Cooldown
from semrouter_memory.retain.passages import beginning, reads_all


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
    """The settings that triggers look at, and which of these fires for a session.

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

    def due(self, session: PendingSession, now: datetime, *, model_blocked: bool = False) -> Trigger | None:
        """The trigger that fires for this session now, or None.

        Args:
            model_blocked: the model is not asked about the session now: only what needs none is due.
        """
        if session.not_before is not None and now < session.not_before:
            return None
        trigger = self.wanted(session, now)
        if model_blocked and session.waiting and trigger is not Trigger.QUOTES:
            return self.ending(session, session.last_observed_at, now) if session.unsummarised else None
        return trigger

    def wanted(self, session: PendingSession, now: datetime) -> Trigger | None:
        """The trigger that would fire without a back-off and with a model that is available."""
        ending = self.ending(session, session.last_observed_at, now)
        if not session.waiting:
            return ending if session.unsummarised else None
        if not self.model or (self.quotes and session.rules_pending):
            return Trigger.QUOTES
        if session.remember:
            return Trigger.REMEMBER
        return Trigger.BATCH if session.waiting >= self.batch_size else ending

    def ending(self, session: PendingSession | Claim, since: datetime, now: datetime) -> Trigger | None:
        """How a session that is idle since then has come to its end, None while it has not."""
        if session.ended:
            return Trigger.END
        return Trigger.IDLE if now - since >= self.idle else None


_MAX_SESSIONS = 16_384
_MAX_FAILED = 1_024
_MAX_SUMMED_UP = 4_096
_SUSPECT_FAILURES = 2
"""Failures in a row of one session after which a probe of the model precedes its next prompt."""


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A session whose last prompts the model did not serve, or whose last writes failed.

    Attributes:
        failures: how many in a row.
        mark: how many prompts, of any session, the model had answered by then; or how many of the writes the store refused.
        cooldown: until then the model is not asked about the session, or nothing of it is written.
    """

    failures: int = 0
    mark: int = 0
    cooldown: Cooldown | None = None

    def cools_down(self, now: datetime) -> bool:
        return self.cooldown is not None and self.cooldown.active(now)


NO_FAILURE = FailureRecord()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A session's last turn, its age when it was seen first, and when that was."""

    last_observed_at: datetime
    age: timedelta
    seen: float


class ExtractionScheduler:
    """Decides which sessions the model is asked about.

    Args:
        retry_after: seconds until the model may be asked again, None while it is available.
        probe_pause: between two choices of a probe, while the first one's outcome is unknown.
        monotonic: seconds on a monotonic clock.
    """

    def __init__(
        self,
        pace: Pace,
        *,
        retry_after: Callable[[], float | None],
        probe_pause: timedelta,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pace = pace
        self._retry_after = retry_after
        self._monotonic = monotonic
        self._seen: LRUCache[SessionKey, _Seen] = LRUCache(_MAX_SESSIONS)
        self._probe_pause = probe_pause
        self._due: dict[SessionKey, Trigger] = {}
        self._answers = 0
        self._failed: LRUCache[SessionKey, FailureRecord] = LRUCache(_MAX_FAILED)
        self._summed_up: LRUCache[SessionKey, int] = LRUCache(_MAX_SUMMED_UP)
        self._probe: tuple[SessionKey, Trigger] | None = None
        self._probe_cooldown: Cooldown | None = None
        self._probed: set[SessionKey] = set()

    def is_blocked(self, key: SessionKey, now: datetime) -> bool:
        """Whether the model is not asked about the session: it is unavailable, or a prompt of the session just failed."""
        return self._retry_after() is not None or self._record(key).cools_down(now)

    def _idle_since(self, key: SessionKey, last_observed_at: datetime, now: datetime) -> datetime:
        """When the session fell idle, by the clock as it stands now.

        Args:
            last_observed_at: when its last turn was said, by the clock as it stood then.
        """
        known = self._seen.get(key)
        if known is None or known.last_observed_at < last_observed_at:
            known = _Seen(last_observed_at, max(now - last_observed_at, timedelta()), self._monotonic())
            self._seen[key] = known
        return now - known.age - timedelta(seconds=self._monotonic() - known.seen)

    # -- the tick ------------------------------------------------------------------------------------------------------

    def at_hand(self, sessions: Iterable[PendingSession], now: datetime) -> list[PendingSession]:
        """Those in which turns wait, or that are at their end. Most have been read, and only wait for their end.

        Returns:
            Each with the time since when it is idle, by the clock as it stands now.
        """
        found = []
        for session in sessions:
            since = self._idle_since(session.key, session.last_observed_at, now)
            if session.waiting or session.ended or now - since >= self._pace.idle:
                found.append(replace(session, last_observed_at=since))
        return found

    def due(self, sessions: Sequence[PendingSession], now: datetime) -> list[SessionKey]:
        """Of those that are at hand, the sessions to work on now."""
        self._due.clear()
        found: list[SessionKey] = []
        for session in sessions:
            blocked = self.is_blocked(session.key, now)
            trigger = self._pace.due(session, now, model_blocked=blocked)
            if trigger is None:
                continue
            if trigger is not Trigger.QUOTES:
                if blocked and self.is_summed_up(session.key, session.unsummarised):
                    continue
                if session.waiting and not blocked:
                    self._due[session.key] = trigger
            found.append(session.key)
        self._choose_probe(sessions, now)
        return found if self._probe is None else list(dict.fromkeys((*found, self._probe[0])))

    def wanted(self, sessions: Sequence[PendingSession], now: datetime) -> list[SessionKey]:
        """Those at hand that have work, whether it can be done now or waits for a retry."""
        return [session.key for session in sessions if self._pace.wanted(session, now) is not None]

    def _choose_probe(self, sessions: Sequence[PendingSession], now: datetime) -> None:
        """Once an unavailable model may be asked again, choose the session that does."""
        if self._retry_after() != 0:
            self._probe = self._probe_cooldown = None
            return
        if self._probe_cooldown is not None and self._probe_cooldown.active(now):
            return
        wanting: dict[SessionKey, Trigger] = {}
        for session in sessions:
            trigger = self._pace.due(session, now)
            if session.waiting and trigger is not None and trigger is not Trigger.QUOTES:
                wanting[session.key] = trigger
        if not wanting:
            return
        if self._probed.issuperset(wanting):
            self._probed.clear()
        key = next(key for key in wanting if key not in self._probed)
        self._probed.add(key)
        self._probe, self._probe_cooldown = (key, wanting[key]), Cooldown.of(self._probe_pause, now)

    # -- the worker ----------------------------------------------------------------------------------------------------

    def trigger(self, claim: Claim, now: datetime, *, remember_requested: bool = False) -> Trigger | None:
        """Why the model is asked about the claimed turns now, None when it is not.

        After a failure only the tick decides, because it knows when the back-off ends.

        Args:
            remember_requested: a turn that was not read before asks to remember something.
        """
        if self._probe is not None and self._probe[0] == claim.key:
            trigger, self._probe = self._probe[1], None
            return trigger
        if trigger_of_tick := self._due.pop(claim.key, None):
            return None if self.is_blocked(claim.key, now) else trigger_of_tick
        if not self.may_ask(claim, now):
            return None
        if remember_requested:
            return Trigger.REMEMBER
        if len(claim.turns) >= self._pace.batch_size:
            return Trigger.BATCH
        return self.end_trigger(claim, claim.turns, now)

    def may_ask(self, claim: Claim, now: datetime) -> bool:
        """Whether the model may be asked about these turns without a decision of the tick."""
        return not self.is_blocked(claim.key, now) and not any(turn.attempts for turn in claim.turns)

    def end_trigger(self, claim: Claim, turns: Sequence[LoggedTurn], now: datetime) -> Trigger | None:
        """How the session has come to its end, None while it has not. Without a turn it has.

        Args:
            turns: the session's last ones.
        """
        if not turns:
            return Trigger.END if claim.ended else Trigger.IDLE
        since = self._idle_since(claim.key, turns[-1].observed_at, now)
        return self._pace.ending(claim, since, now)

    def is_summed_up(self, key: SessionKey, unsummarised: int) -> bool:
        """Whether the session's episode, with no turn more, was written while its turns wait for the model."""
        return self._summed_up.get(key) == unsummarised

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def summed_up(self, claim: Claim) -> None:
        """The session's episode is written. If turns still wait for the model, it is due once more."""
        if not claim.turns:
            self._failed.pop(claim.key, None)
            return
        self._summed_up[claim.key] = claim.unsummarised

    def answered(self, key: SessionKey | None = None) -> None:
        """The model answered, whatever it said.

        Args:
            key: the session of the prompt.
        """
        self._answers += 1
        self._probe = None
        self._probed.clear()
        self._summed_up.clear()
        if key is not None:
            self._failed.pop(key, None)

    def not_served(self, key: SessionKey) -> bool:
        """The model did not serve the session's prompt; returns whether the prompt is at fault: others were served."""
        before = self._record(key)
        self._failed[key] = FailureRecord(before.failures + 1, self._answers)
        return before.failures > 0 and before.mark < self._answers

    def cool_down(self, key: SessionKey, pause: timedelta, now: datetime) -> None:
        """Do not ask about the session, whose prompt failed, for so long."""
        self._failed[key] = replace(self._failed[key], cooldown=Cooldown.of(pause, now))

    def failures(self, key: SessionKey) -> int:
        """How many of the session's prompts in a row the model did not serve."""
        return self._record(key).failures

    def is_suspect(self, key: SessionKey) -> bool:
        """Whether the session's prompt or the model may be at fault: a probe of the model should come first."""
        record = self._record(key)
        return record.failures >= _SUSPECT_FAILURES and record.mark == self._answers

    def _record(self, key: SessionKey) -> FailureRecord:
        return self._failed.get(key, NO_FAILURE)


# -- the change of topic -----------------------------------------------------------------------------------------------


_MAX_VECTORS = 2_048
"""Turns whose vectors are cached: 1.5 KB each."""
_MAX_CHARS = 1_000
"""Of a turn; the beginning says what it is about."""

WINDOW = 12
"""Turns that are looked at: the last ones that say something."""
_SETTLED = 3
"""Turns that make a topic one that can be left."""
_IN_A_ROW = 2
_MIN_WORDS = 2
_MIN_CHINESE = 6
_READ_CHARS = 2_000


class TopicWatch:
    """Tells whether a session's waiting turns have left its topic.

    Args:
        similarity: see `RetainConfig.drift_similarity`.
    """

    def __init__(self, embedder: Embedder, *, similarity: float) -> None:
        self._embedder = embedder
        self._similarity = similarity
        self._vectors: LRUCache[str, Vector] = LRUCache(_MAX_VECTORS)

    async def changed(self, claim: Claim) -> bool:
        """Whether the last change of topic is among the waiting turns. What cannot be embedded has not changed."""
        turns = _last_telling((*claim.context, *claim.turns))
        try:
            vectors = await self._embedded(turns)
        except UnavailableError:
            return False
        place = last_change(vectors, self._similarity)
        return place is not None and turns[place].id in {turn.id for turn in claim.turns}

    async def _embedded(self, turns: Sequence[LoggedTurn]) -> list[Vector]:
        known = {turn.id: self._vectors[turn.id] for turn in turns if turn.id in self._vectors}
        if new := [turn for turn in turns if turn.id not in known]:
            fits = reads_all(self._embedder)
            vectors = await self._embedder.embed_passages(
                [beginning(turn.user_text[:_MAX_CHARS], fits) for turn in new]
            )
            known |= zip((turn.id for turn in new), vectors, strict=True)
            self._vectors.update(known)
        return [known[turn.id] for turn in turns]


def _last_telling(turns: Sequence[LoggedTurn]) -> list[LoggedTurn]:
    """The last turns that say something, oldest first."""
    telling = (turn for turn in reversed(turns) if says_something(turn.user_text))
    return list(islice(telling, WINDOW))[::-1]


def says_something(text: str) -> bool:
    """Whether a turn's words say enough to tell its topic."""
    text = text[:_READ_CHARS]
    telling = {*content_words(text)} - words_of("about_answers")
    return sum(word.isalpha() for word in telling) >= _MIN_WORDS or len(CJK.findall(text)) >= _MIN_CHINESE


def last_change(vectors: Sequence[Vector], similarity: float) -> int | None:
    """The place of the turn that completed the last change of topic, None when there was none.

    Args:
        vectors: of the turns that say something, oldest first.
        similarity: the cosine to the topic below which a turn is unlike it.
    """
    topic: list[Vector] = []
    unlike: list[Vector] = []
    changed: int | None = None
    for place, vector in enumerate(vectors):
        if len(topic) < _SETTLED or _cosine(vector, topic) >= similarity:
            topic.append(vector)
            unlike = []
            continue
        unlike.append(vector)
        if len(unlike) == _IN_A_ROW:
            topic, unlike, changed = unlike, [], place
    return changed


def _cosine(vector: Vector, topic: Sequence[Vector]) -> float:
    mean = np.mean(topic, axis=0)
    length = float(np.linalg.norm(mean))
    return float(mean @ vector) / length if length else 0.0
