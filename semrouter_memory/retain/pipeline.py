"""From a finished exchange to memories: accept the turn, then extract, reconcile and write in the background.

Strategy. `TurnIntake.accept` commits the turn to the turn log and returns. A crash at any later point loses nothing, because work is
repeated until the log records it as finished, and duplicates nothing, because reconciling the same memory again skips it.
Quotes are taken at once; a model is asked when a trigger fires, outside the owner's lock, and about as many sessions at a time as
`workers` says. A session that waits for its place holds no worker, so that a slow model delays no quote. A claim is renewed while a step
runs. When all turns of an ended session are read, its episode is written. `failures` handles a step that fails.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

from semrouter_memory.errors import TurnLogError
from semrouter_memory.events import SessionDue
from semrouter_memory.model import Claim, LoggedTurn, PendingSession, SessionKey
from semrouter_memory.retain.failures import FailurePolicy, RetainParts
from semrouter_memory.retain.intake import TurnIntake
from semrouter_memory.retain.scheduling import ExtractionScheduler, Pace, TopicWatch, Trigger
from semrouter_memory.retain.session_end import SessionEndHandler
from semrouter_memory.retain.steps import (
    ModelStep,
    QuoteStep,
    quoted_part,
    scene_turns,
    unread,
    with_quotes,
)

_SLICE = 200
"""Sessions that are looked at without a pause: that takes 1 ms."""
_SWEEP_EVERY = timedelta(hours=1)
_RENEWALS = 3
"""How often a lease is renewed before it would end."""
_MAX_RENEWALS = 90
"""Of one claim: a step that never ends holds its session for thirty leases, not forever."""
_MANY_TURNS = 100
"""A claim with so many turns may not include all that wait."""


class _Places:
    """For how many sessions a model is asked at a time.

    Args:
        wake: called with a session that waited, when there is a place for it.
    """

    def __init__(self, count: int, wake: Callable[[SessionKey], object]) -> None:
        self._free = count
        self._wake = wake
        self._waiting: dict[SessionKey, None] = {}

    def waits(self, key: SessionKey) -> bool:
        """Whether the session waits for a place, and there is none."""
        return not self._free and key in self._waiting

    def take(self, key: SessionKey) -> bool:
        """Whether the session has a place now; else it waits for one."""
        if not self._free:
            self._waiting[key] = None
            return False
        self._waiting.pop(key, None)
        self._free -= 1
        return True

    def leave(self) -> None:
        self._free += 1
        if self._waiting:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._wake(key)


class Retainer:
    """Extracts the turns that its `intake` accepts.

    Args:
        wake: asks for `process(key)` to be run soon; may be ignored, the next tick asks again.
        jitter: draws 0..1.
        monotonic: seconds on a clock that is never set.
    """

    def __init__(
        self,
        parts: RetainParts,
        *,
        wake: Callable[[SessionKey], object],
        jitter: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        backends, self._config = parts.backends, parts.config
        self._turn_log, self._observer, self._clock = backends.turn_log, backends.observer, backends.clock
        self._wake = wake
        self._places = _Places(self._config.workers, wake)
        self._swept_at: datetime | None = None
        self._retrying = 0
        self._monotonic = monotonic
        self._wanted_since: dict[SessionKey, float] = {}
        self.intake = TurnIntake(self._turn_log, self._observer, max_chars=self._config.max_turn_chars, wake=wake)
        self._topics = TopicWatch(backends.embedder, similarity=self._config.drift_similarity)
        self._failures = FailurePolicy(parts, jitter=jitter)
        self._scheduler = _scheduler(parts, monotonic)
        self._quotes = QuoteStep(parts)
        model = parts.chat_model
        self._model = ModelStep(model, parts, scheduler=self._scheduler, failures=self._failures) if model else None
        self._end = SessionEndHandler(parts, scheduler=self._scheduler, failures=self._failures)

    # -- looking for work ----------------------------------------------------------------------------------------------

    async def tick(self) -> int:
        """Wake the sessions that are due, and delete turns whose retention has ended.

        Returns:
            How many sessions were looked at.
        """
        now = self._clock.now()
        await self._sweep(now)
        pending = await self._turn_log.pending()
        sessions = await self._at_hand(pending, now)
        wanted, at = self._scheduler.wanted(sessions, now), self._monotonic()
        self._wanted_since = {key: self._wanted_since.get(key, at) for key in wanted}
        keys = [] if self._failures.is_store_cooling_down(now) else self._scheduler.due(sessions, now)
        free = [key for key in keys if not self._failures.is_cooling_down(key, now) and not self._places.waits(key)]
        self._retrying = max(len(wanted) - len(free), 0)
        for key in free:
            self._wake(key)
        return len(pending)

    async def _at_hand(self, pending: Sequence[PendingSession], now: datetime) -> list[PendingSession]:
        """Those to look at, found in slices: requests go in between, however many sessions are open."""
        found: list[PendingSession] = []
        for start in range(0, len(pending), _SLICE):
            found += self._scheduler.at_hand(pending[start : start + _SLICE], now)
            await asyncio.sleep(0)
        return found

    @property
    def retrying(self) -> int:
        """How many sessions have work that waits for a retry, as of the last tick."""
        return self._retrying

    @property
    def waiting_seconds(self) -> float:
        """For how long a session has had work, tried or not, as of the last tick; 0 when none has."""
        return self._monotonic() - min(self._wanted_since.values()) if self._wanted_since else 0.0

    async def _sweep(self, now: datetime) -> None:
        if self._swept_at is None or abs(now - self._swept_at) >= _SWEEP_EVERY:
            self._swept_at = now
            await self._turn_log.sweep(finished_before=now - timedelta(days=self._config.turn_retention_days))

    # -- extracting ----------------------------------------------------------------------------------------------------

    async def process(self, key: SessionKey) -> None:
        """Extract one session's waiting turns and sum up its end, as far as they are due.

        Raises:
            TurnLogError: the turn log failed; its turns wait until the claim's lease ends.
        """
        now = self._clock.now()
        # A store that cools down may be available again: a wake finds out, unless the store reports otherwise.
        if not self._failures.store_available or self._failures.is_cooling_down(key, now):
            return
        lease = timedelta(seconds=self._config.lease_seconds)
        claim = await self._turn_log.claim(key.scope, key.session_id, lease=lease, context=scene_turns(self._config))
        if claim is None:
            return
        try:
            async with self._renewed(claim, lease):
                await self._work(claim)
        except asyncio.CancelledError:
            await self._turn_log.release(claim)
            raise

    @asynccontextmanager
    async def _renewed(self, claim: Claim, lease: timedelta) -> AsyncIterator[None]:
        """Renews the claim meanwhile, so that no second worker repeats a step that takes longer than the lease."""
        renewing = asyncio.create_task(self._renew(claim, lease), name="renew-claim")
        try:
            yield
        finally:
            renewing.cancel()

    async def _renew(self, claim: Claim, lease: timedelta) -> None:
        for _ in range(_MAX_RENEWALS):
            await asyncio.sleep(lease.total_seconds() / _RENEWALS)
            # An unavailable log may recover in time; a lost claim finishes nothing.
            with suppress(TurnLogError):
                if not await self._turn_log.renew(claim, lease=lease):
                    return

    async def _work(self, claim: Claim) -> None:
        """Take one step with a claimed session; every path releases the claim."""
        if not claim.turns:
            await self._in_place(claim, partial(self._sum_up, claim))
            return
        new = unread(claim) if self._config.quotes else []
        part = quoted_part(new) if new else []
        if self._is_backing_off(claim, new):
            await self._turn_log.release(claim)
            return
        known = await self._failures.guard(claim, part, self._quotes.run(claim, part)) if part else set[str]()
        if known is None:
            await self._turn_log.release(claim)
        elif self._model is None:
            await self._finish(claim, part if len(part) < len(new) else claim.turns, known)
        elif len(part) < len(new):
            await self._turn_log.release(claim)
            self._wake(claim.key)
        else:
            await self._in_place(claim, partial(self._ask, claim, known, self._model))

    async def _in_place(self, claim: Claim, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step that may ask the model, or release the claim until there is a place for it."""
        if not self._places.take(claim.key):
            await self._turn_log.release(claim)
            return
        try:
            await step()
        finally:
            self._places.leave()

    def _is_backing_off(self, claim: Claim, new: Sequence[LoggedTurn]) -> bool:
        """Whether the turns to read failed, and their back-off has not ended; it does not hold up other turns."""
        held = claim.not_before is not None and self._clock.now() < claim.not_before
        turns = new or (() if self._model else claim.turns)
        return held and any(turn.attempts for turn in turns)

    async def _finish(self, claim: Claim, turns: Sequence[LoggedTurn], known: set[str]) -> None:
        """Finish turns that were read, where no model is configured."""
        sources = known | with_quotes(turns)
        await self._turn_log.finish(claim, {turn.id: turn.id in sources for turn in turns})
        self._continue(claim, turns)

    async def _ask(self, claim: Claim, known: set[str], model: ModelStep) -> None:
        if trigger := await self._trigger(claim):
            self._observer.observe(SessionDue(trigger))
            batch = model.batch(claim)
            if await self._failures.guard(claim, batch, model.run(claim, batch, known)):
                self._continue(claim, batch)
        elif self._ends_while_blocked(claim):
            await self._sum_up(claim)
        else:
            await self._turn_log.release(claim)

    def _ends_while_blocked(self, claim: Claim) -> bool:
        """Whether the session has ended, the model is not asked about it, and its episode was not written since."""
        blocked = claim.unsummarised > 0 and self._scheduler.is_blocked(claim.key, self._clock.now())
        return (
            blocked
            and not self._scheduler.is_summed_up(claim.key, claim.unsummarised)
            and self._scheduler.end_trigger(claim, claim.turns, self._clock.now()) is not None
        )

    async def _trigger(self, claim: Claim) -> Trigger | None:
        """Why the model is asked now, None when it is not."""
        now = self._clock.now()
        remember_requested = any(turn.remember for turn in unread(claim))
        if trigger := self._scheduler.trigger(claim, now, remember_requested=remember_requested):
            return trigger
        drifted = self._scheduler.may_ask(claim, now) and await self._topics.changed(claim)
        return Trigger.DRIFT if drifted else None

    def _continue(self, claim: Claim, finished: Sequence[LoggedTurn]) -> None:
        """Wake the session again when more turns wait, or when all are read and its end is due."""
        more = len(finished) < len(claim.turns) or len(claim.turns) >= _MANY_TURNS
        if more or self._scheduler.end_trigger(claim, claim.turns, self._clock.now()):
            self._wake(claim.key)

    async def _sum_up(self, claim: Claim) -> None:
        await self._failures.guard(claim, (), self._end.run(claim))


def _scheduler(parts: RetainParts, monotonic: Callable[[], float]) -> ExtractionScheduler:
    config, model = parts.config, parts.chat_model
    idle = timedelta(seconds=config.session_idle_seconds)
    return ExtractionScheduler(
        Pace(quotes=config.quotes, model=model is not None, batch_size=parts.batch_size, idle=idle),
        retry_after=lambda: model.retry_after if model else None,
        probe_pause=timedelta(seconds=config.breaker_seconds),
        monotonic=monotonic,
    )
