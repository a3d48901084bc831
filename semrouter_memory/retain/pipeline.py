"""From a finished exchange to memories: accept the turn, then extract, reconcile and write in the background.

Strategy. `accept` commits the turn to the turn log and returns; from then on the log is the truth, and a crash at any
point loses nothing, because work is repeated until the log says that it is finished, and duplicates nothing, because
reconciling the same memory again skips it. Quotes are taken at once; a model is asked when a trigger fires, outside the
owner's lock. A claim is renewed while its step takes. When all of a session is read and the session is at its end, it is
summed up. What becomes of a step that fails is in `troubles`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import CircuitOpenError, ModelAwayError, TurnLogError
from semrouter_memory.model import Appended, Claim, LoggedTurn, Turn
from semrouter_memory.ports import (
    ChatModel,
    Clock,
    Embedder,
    MemoryReader,
    Observer,
    SessionStateBuilder,
    TurnLog,
)
from semrouter_memory.retain.accepting import Accepting
from semrouter_memory.retain.asking import Asking
from semrouter_memory.retain.ending import SessionEnd
from semrouter_memory.retain.idling import Idling
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter
from semrouter_memory.retain.remember import asks_to_remember
from semrouter_memory.retain.steps import ModelStep, QuoteStep, StepParts, found_in, quoted_part, scene_turns, unread
from semrouter_memory.retain.summing_up import EpisodeWriter
from semrouter_memory.retain.topics import TopicWatch
from semrouter_memory.retain.triggers import Pace, SessionKey, Trigger
from semrouter_memory.retain.troubles import Troubles

__all__ = ["Retainer", "SessionKey"]

_SWEEP_EVERY = timedelta(hours=1)
_RENEWALS = 3
"""So many times in a lease's time it is renewed."""
_MAX_RENEWALS = 90
"""Of one claim: a step that never ends keeps its session for thirty leases, not for ever."""
_MANY_TURNS = 100
"""From so many turns on a claim may hold a part of those that wait only."""


class Retainer:
    """Accepts turns and extracts them.

    Args:
        reader: asked whether the store is there, and for a session's earlier episode.
        chat_model: with the role `memory_extraction`.
        states: told of every turn that was read; None when nobody keeps sessions' states.
        wake: asks for `process(key)` to be run soon; may be ignored, the next tick asks again.
        jitter: draws 0..1.
        monotonic: seconds on a clock that nobody sets.
    """

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        writer: ReconcilingWriter,
        embedder: Embedder,
        chat_model: ChatModel | None,
        observer: Observer,
        clock: Clock,
        config: RetainConfig,
        extraction_batch_size: int,
        wake: Callable[[SessionKey], object],
        states: SessionStateBuilder | None = None,
        jitter: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turn_log = turn_log
        self._observer = observer
        self._clock = clock
        self._config = config
        self._wake = wake
        self._swept_at: datetime | None = None
        self._retrying = 0
        self._accepting = Accepting(turn_log, observer, max_chars=config.max_turn_chars, wake=wake)
        self._topics = TopicWatch(embedder, similarity=config.drift_similarity)
        self._troubles = Troubles(
            turn_log=turn_log, reader=reader, observer=observer, clock=clock, config=config, jitter=jitter
        )
        self._pace = _pace(config, batch_size=extraction_batch_size, model=chat_model is not None)
        probe_pause = timedelta(seconds=config.breaker_seconds)
        self._asking = Asking(self._pace, probe_pause=probe_pause, idling=Idling(monotonic))
        parts = StepParts(turn_log, writer, observer, states)
        self._quotes = QuoteStep(parts, embedder=embedder, last=chat_model is None)
        self._model = self._model_step(chat_model, parts, embedder) if chat_model else None
        episodes = EpisodeWriter(
            writer=writer, embedder=embedder, chat_model=chat_model, observer=observer, keep_quotes=config.quotes
        )
        self._end = SessionEnd(
            turn_log=turn_log,
            reader=reader,
            observer=observer,
            ending=self._ending,
            episodes=episodes if config.episodes else None,
        )

    def _model_step(self, model: ChatModel, parts: StepParts, embedder: Embedder) -> ModelStep:
        return ModelStep(
            model,
            parts,
            embedder=embedder,
            asking=self._asking,
            troubles=self._troubles,
            clock=self._clock,
            batch_size=self._pace.batch_size,
            context_turns=self._config.context_turns,
        )

    # -- accepting -----------------------------------------------------------------------------------------------------

    def accept(self, turn: Turn) -> Appended | None:
        """Commit a turn, quickly; see `Accepting.accept`. Never raises."""
        return self._accepting.accept(turn)

    async def settle(self) -> None:
        """Return when every turn that was accepted so far is written; before the turn log closes."""
        await self._accepting.settle()

    # -- looking for work ----------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Wake the sessions that are due, and drop what was kept long enough."""
        now = self._clock.now()
        await self._sweep(now)
        sessions = await self._turn_log.pending()
        waiting = self._asking.wanted(sessions, now)
        keys = [] if self._troubles.store_rests(now) else self._asking.look(sessions, now)
        free = [key for key in keys if not self._troubles.rests(key, now)]
        self._retrying = max(waiting - len(free), 0)
        for key in free:
            self._wake(key)

    @property
    def retrying(self) -> int:
        """How many sessions have work that waits to be tried again, by the last tick."""
        return self._retrying

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
        # While the store rests a wake may find out that it is back, as long as it does not say itself that it is not.
        if not self._troubles.store_available or self._troubles.rests(key, now):
            return
        lease = timedelta(seconds=self._config.lease_seconds)
        claim = await self._turn_log.claim(key.scope, key.session_id, lease=lease, context=scene_turns(self._config))
        if claim is None:
            return
        try:
            async with self._renewed(claim, lease):
                await self._work(claim, key)
        except asyncio.CancelledError:
            await self._turn_log.release(claim)
            raise

    @asynccontextmanager
    async def _renewed(self, claim: Claim, lease: timedelta) -> AsyncIterator[None]:
        """Keeps the claim alive meanwhile: a step that takes longer than the lease is not done by two."""
        renewing = asyncio.create_task(self._renew(claim, lease), name="renew-claim")
        try:
            yield
        finally:
            renewing.cancel()

    async def _renew(self, claim: Claim, lease: timedelta) -> None:
        for _ in range(_MAX_RENEWALS):
            await asyncio.sleep(lease.total_seconds() / _RENEWALS)
            # A log that is away may be back in time; a claim that is lost finishes nothing, whoever goes on.
            with suppress(TurnLogError):
                if not await self._turn_log.renew(claim, lease=lease):
                    return

    async def _work(self, claim: Claim, key: SessionKey) -> None:
        """Take one step with a claimed session; every way through it gives the claim back."""
        if not claim.turns:
            await self._sum_up(claim, key)
            return
        new = unread(claim) if self._config.quotes else []
        part = quoted_part(new) if new else []
        if self._is_backing_off(claim, new):
            await self._turn_log.release(claim)
            return
        known = await self._troubles.guard(claim, key, part, self._quotes.run(claim, part)) if part else set[str]()
        if known is None:
            await self._turn_log.release(claim)
        elif self._model is None:
            await self._finish(claim, key, part if len(part) < len(new) else claim.turns, known)
        elif len(part) < len(new):
            await self._turn_log.release(claim)
            self._wake(key)
        else:
            await self._ask(claim, key, known, self._model)

    def _is_backing_off(self, claim: Claim, new: Sequence[LoggedTurn]) -> bool:
        """Whether the turns to read failed, and are not to be tried yet; others have nothing to do with a back-off."""
        held = claim.not_before is not None and self._clock.now() < claim.not_before
        turns = new or (() if self._model else claim.turns)
        return held and any(turn.attempts for turn in turns)

    async def _finish(self, claim: Claim, key: SessionKey, turns: Sequence[LoggedTurn], known: set[str]) -> None:
        """End what was read where there is no model."""
        before = [turn for turn in turns if turn.rules_done] if self._config.quotes else []
        sources = known | await found_in(claim, before)
        await self._turn_log.finish(claim, {turn.id: turn.id in sources for turn in turns})
        self._go_on(claim, key, turns)

    async def _ask(self, claim: Claim, key: SessionKey, known: set[str], model: ModelStep) -> None:
        if trigger := await self._trigger(claim, key):
            self._observer.session_due(trigger)
            batch = model.batch(claim, key)
            if await self._troubles.guard(claim, key, batch, model.run(claim, key, batch, known)):
                self._go_on(claim, key, batch)
        elif self._ends_meanwhile(claim, key):
            await self._sum_up(claim, key)
        else:
            await self._turn_log.release(claim)

    def _ends_meanwhile(self, claim: Claim, key: SessionKey) -> bool:
        """Whether the session is at its end while the model is away, and was not summed up since."""
        away = self._asking.away and claim.unsummarised > 0
        return (
            away and not self._asking.is_summed_up(key, claim.unsummarised) and bool(self._ending(claim, claim.turns))
        )

    async def _trigger(self, claim: Claim, key: SessionKey) -> Trigger | None:
        """Why the model is asked now, None when it is not."""
        free = self._asking.may_ask(claim)
        wished = free and await asyncio.to_thread(_asks_to_remember, unread(claim))
        if trigger := self._asking.trigger(claim, key, self._clock.now(), wished=wished):
            return trigger
        drifted = self._asking.may_ask(claim) and await self._topics.changed(claim)
        return Trigger.DRIFT if drifted else None

    def _ending(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Trigger | None:
        if not turns:
            return Trigger.END if claim.ended else Trigger.IDLE
        return self._asking.ending(claim, turns[-1].observed_at, self._clock.now())

    def _go_on(self, claim: Claim, key: SessionKey, finished: Sequence[LoggedTurn]) -> None:
        """Ask for the next step of a session of which more waits, or whose turns are read and whose end is due."""
        more = len(finished) < len(claim.turns) or len(claim.turns) >= _MANY_TURNS
        if more or self._ending(claim, claim.turns):
            self._wake(key)

    async def _sum_up(self, claim: Claim, key: SessionKey) -> None:
        await self._troubles.guard(claim, key, (), self._summed_up(claim, key))

    async def _summed_up(self, claim: Claim, key: SessionKey) -> None:
        failures = self._asking.failures(key)
        try:
            done = await self._end.sum_up(claim, ask_model=not claim.turns and failures < self._config.max_attempts)
        except ModelAwayError as error:
            if not isinstance(error, CircuitOpenError):
                self._asking.not_served(key)
            await self._troubles.back_off(claim, error, failures=failures)
        else:
            if done:
                self._asking.summed_up(claim, key)


def _pace(config: RetainConfig, *, batch_size: int, model: bool) -> Pace:
    idle = timedelta(seconds=config.session_idle_seconds)
    return Pace(quotes=config.quotes, model=model, batch_size=batch_size, idle=idle)


def _asks_to_remember(turns: Sequence[LoggedTurn]) -> bool:
    return any(asks_to_remember(turn.user_text) for turn in turns)
