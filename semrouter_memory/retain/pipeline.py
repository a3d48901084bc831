"""From a finished exchange to memories: accept the turn, then extract, reconcile and write in the background.

Strategy. `accept` commits the turn to the turn log and returns; from then on the log is the truth, and a crash at any
point loses nothing, because work is repeated until the log says that it is finished, and duplicates nothing, because
reconciling the same statement again skips it. The rules run at once; a model is asked when a trigger fires, outside the
owner's lock. A store or a model that is away makes turns wait without counting an attempt; what fails by itself is tried
again with growing pauses, fewer turns at a time, and given up after `max_attempts`. When all of a session is read and
the session is at its end, it is summed up.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import (
    ChatModelError,
    CircuitOpenError,
    ExtractionParseError,
    LockLostError,
    MemoryServiceError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    Candidate,
    Claim,
    ExtractionReport,
    LoggedTurn,
    Turn,
    TurnState,
)
from semrouter_memory.ports import (
    ChatModel,
    Clock,
    Embedder,
    MemoryReader,
    Observer,
    SessionStateBuilder,
    TurnLog,
)
from semrouter_memory.retain import rules
from semrouter_memory.retain.accepting import cleaned
from semrouter_memory.retain.asking import Asking
from semrouter_memory.retain.extract_llm import LlmExtractor, batch_of
from semrouter_memory.retain.gate import Gated
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter, Written
from semrouter_memory.retain.summing_up import EpisodeWriter
from semrouter_memory.retain.topics import TopicWatch
from semrouter_memory.retain.triggers import Pace, SessionKey, Trigger, backoff

__all__ = ["Retainer", "SessionKey"]

_SCENE_TURNS = 20
"""Earlier turns that the rules look at for whom "she" means and whether a role-play is on."""
_EPISODE_TURNS = 200
"""The last turns of a session that its episode is made of."""
_SWEEP_EVERY = timedelta(hours=1)
_RENEWALS = 3
"""So many times in a lease it is renewed, while the session is worked on."""
_MOST_LEASES = 20
"""Then whoever wants the session may have it: something stands still here."""


class Retainer:
    """Accepts turns and extracts them.

    Args:
        reader: asked only whether the store is there.
        chat_model: with the role `memory_extraction`.
        states: told of every turn that was read; None when nobody keeps sessions' states.
        wake: asks for `process(key)` to be run soon; may be ignored, the next tick asks again.
        jitter: draws 0..1.
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
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._writer = writer
        self._extractor = LlmExtractor(chat_model) if chat_model else None
        self._topics = TopicWatch(embedder, similarity=config.drift_similarity)
        self._episodes = EpisodeWriter(
            writer=writer, embedder=embedder, chat_model=chat_model, observer=observer, use_rules=config.rules
        )
        self._states = states
        self._observer = observer
        self._clock = clock
        self._config = config
        self._wake = wake
        self._jitter = jitter
        self._pace = Pace(
            rules=config.rules,
            model=chat_model is not None,
            batch_size=extraction_batch_size,
            idle=timedelta(seconds=config.session_idle_seconds),
        )
        self._asking = Asking(self._pace, probe_pause=timedelta(seconds=config.breaker_seconds))
        self._store_failures = 0
        self._resume_at: datetime | None = None
        self._swept_at: datetime | None = None

    # -- accepting -----------------------------------------------------------------------------------------------------

    def accept(self, turn: Turn) -> Appended | None:
        """Commit a turn, quickly. Never raises.

        Returns:
            What became of it, or None when it could not be written; the observer knows why.
        """
        try:
            appended = self._append(turn)
        except TurnLogError:
            self._observer.turn_dropped("log_failed")
            return None
        except Exception:  # noqa: BLE001 - the exchange that ends here must end well
            self._observer.turn_dropped("internal_error")
            return None
        self._observer.turn_appended(appended)
        if appended.outcome is AppendOutcome.ACCEPTED and appended.session_id:
            self._wake(SessionKey(turn.scope, appended.session_id))
        return appended

    def _append(self, turn: Turn) -> Appended:
        clean = cleaned(turn, max_chars=self._config.max_turn_chars)
        return self._turn_log.append(clean, remember=any(map(rules.asks_to_remember, clean.user_texts)))

    # -- looking for work ----------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Wake the sessions that are due, and drop what was kept long enough."""
        now = self._clock.now()
        await self._sweep(now)
        if not self._reader.available or (self._resume_at is not None and now < self._resume_at):
            return
        for key in self._asking.look(await self._turn_log.pending(), now):
            self._wake(key)

    async def _sweep(self, now: datetime) -> None:
        if self._swept_at is None or now - self._swept_at >= _SWEEP_EVERY:
            self._swept_at = now
            await self._turn_log.sweep(finished_before=now - timedelta(days=self._config.turn_retention_days))

    # -- extracting ----------------------------------------------------------------------------------------------------

    async def process(self, key: SessionKey) -> None:
        """Extract one session's waiting turns and sum up its end, as far as they are due.

        Raises:
            TurnLogError: the turn log failed; its turns wait until the claim's lease ends.
        """
        if not self._reader.available:
            return
        lease = timedelta(seconds=self._config.lease_seconds)
        context = max(_SCENE_TURNS, self._config.context_turns)
        claim = await self._turn_log.claim(key.scope, key.session_id, lease=lease, context=context)
        if claim is None:
            return
        try:
            async with self._keeping(claim, lease):
                await self._work(claim, key)
        except asyncio.CancelledError:
            await self._turn_log.release(claim)
            raise
        except TurnLogError:
            raise
        except (StoreUnavailableError, LockLostError) as error:
            await self._wait_for_store(claim, error)
        except Exception as error:  # noqa: BLE001 - whatever a turn does to us, its session goes on
            await self._fail(claim, error)
        else:
            self._store_failures, self._resume_at = 0, None

    @asynccontextmanager
    async def _keeping(self, claim: Claim, lease: timedelta) -> AsyncIterator[None]:
        """Keep the claim while it is worked on: replicas that take it over from each other never come to an end."""

        async def renew() -> None:
            for _ in range(_MOST_LEASES * _RENEWALS):
                await asyncio.sleep(lease.total_seconds() / _RENEWALS)
                with suppress(TurnLogError):
                    await self._turn_log.renew(claim, lease=lease)

        renewing = asyncio.create_task(renew(), name="claim-lease")
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _work(self, claim: Claim, key: SessionKey) -> None:
        """Take one step with a claimed session; every way through it gives the claim back."""
        if not claim.turns:
            await self._sum_up(claim)
            return
        known = await self._run_rules(claim)
        if known is None:
            await self._turn_log.release(claim)
        elif self._extractor is None:
            await self._turn_log.finish(claim, {turn.id: turn.id in known for turn in claim.turns})
            self._go_on(claim, key)
        elif trigger := await self._trigger(claim, key):
            self._observer.session_due(trigger)
            await self._run_model(claim, key, known, self._extractor)
        elif self._asking.away and claim.unsummarised and self._ending(claim, claim.turns):
            await self._sum_up(claim)
        else:
            await self._turn_log.release(claim)

    async def _trigger(self, claim: Claim, key: SessionKey) -> Trigger | None:
        """Why the model is asked now, None when it is not."""
        if trigger := self._asking.trigger(claim, key, self._clock.now()):
            return trigger
        drifted = self._asking.may_ask(claim) and await self._topics.changed(claim)
        return Trigger.DRIFT if drifted else None

    def _ending(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Trigger | None:
        if not turns:
            return Trigger.END if claim.ended else Trigger.IDLE
        return self._asking.ending(claim, turns[-1].observed_at, self._clock.now())

    def _go_on(self, claim: Claim, key: SessionKey) -> None:
        """Ask for the next step of a session whose turns are read and whose end is due."""
        if self._ending(claim, claim.turns):
            self._wake(key)

    async def _run_rules(self, claim: Claim) -> set[str] | None:
        """Store what the rules find in turns they have not seen.

        Returns:
            The turns that something was found in, now or before; None when the claim is lost.
        """
        if not self._config.rules:
            return set()
        # In a thread: a long conversation takes a quarter of a second, which recall does not have.
        found = await asyncio.to_thread(rules.candidates, claim.turns, claim.context)
        new = [turn.id for turn in claim.turns if not turn.rules_done]
        known = {candidate.turn_ids[0] for candidate in found if candidate.turn_ids[0] not in new}
        if not new:
            return known
        candidates = [candidate for candidate in found if candidate.turn_ids[0] in new]
        self._observer.session_due(Trigger.RULES)
        written = await self._writer.write(claim, candidates)
        if written is None:
            return None
        await self._tell_states(claim, [turn for turn in claim.turns if turn.id in new], candidates)
        await self._turn_log.mark_rules_done(claim, [turn_id for turn_id in new if turn_id in written.alive])
        self._report("rules", len(new), candidates, written)
        return known | written.sources

    async def _run_model(self, claim: Claim, key: SessionKey, known: set[str], extractor: LlmExtractor) -> None:
        # After a failure fewer turns at a time, so that one that the model cannot bear is found, and alone given up.
        limit = max(1, self._pace.batch_size >> claim.turns[0].attempts)
        batch = batch_of(claim.turns, limit=limit)
        gated = await self._asked(replace(claim, turns=batch), extractor)
        if gated is None:
            return
        written = await self._writer.write(claim, gated.candidates, needed=frozenset(turn.id for turn in batch))
        if written is None:
            await self._turn_log.release(claim)
            return
        await self._tell_states(claim, batch, gated.candidates)
        written.actions.update({f"gate_{why}": count for why, count in gated.turned_away.items()})
        self._report("llm", len(batch), gated.candidates, written)
        await self._turn_log.finish(claim, {turn.id: turn.id in known | written.sources for turn in batch})
        if len(batch) < len(claim.turns):
            self._wake(key)
        else:
            self._go_on(claim, key)

    async def _asked(self, claim: Claim, extractor: LlmExtractor) -> Gated | None:
        """What the model finds in the claim's turns; None when it failed, and the claim is given back."""
        try:
            gated = await extractor.extract_gated(claim.turns, self._context_of(claim))
        except CircuitOpenError as error:
            self._asking.went_away(self._clock.now() + timedelta(seconds=error.wait_seconds))
            await self._turn_log.release(claim)
            return None
        except (ChatModelError, ExtractionParseError) as error:
            self._asking.answered()
            await self._fail(claim, error)
            return None
        self._asking.answered()
        return gated

    async def _tell_states(self, claim: Claim, turns: Sequence[LoggedTurn], candidates: Sequence[Candidate]) -> None:
        if self._states is not None:
            await self._states.turns_read(claim, turns, candidates)

    def _context_of(self, claim: Claim) -> Sequence[LoggedTurn]:
        """Earlier turns for the model; not those that it could not bear, or it could not bear their successors either."""
        count = self._config.context_turns
        read = [turn for turn in claim.context if turn.state is not TurnState.DEAD]
        return read[-count:] if count else ()

    # -- a session's end -----------------------------------------------------------------------------------------------

    async def _sum_up(self, claim: Claim) -> None:
        """Write the session's episode if it is at its end, and note that it is summed up."""
        turns = await self._turn_log.session_turns(claim, limit=_EPISODE_TURNS)
        if trigger := self._ending(claim, turns):
            done = True
            if self._config.episodes and turns:
                self._observer.session_due(trigger)
                done = await self._write_episode(claim, turns)
            if done:
                await self._turn_log.mark_episode(claim, through=turns[-1].sequence if turns else 0)
        await self._turn_log.release(claim)

    async def _write_episode(self, claim: Claim, turns: Sequence[LoggedTurn]) -> bool:
        """Whether there is nothing more to try: a turn that was deleted meanwhile leaves others to be summed up."""
        try:
            if await self._episodes.sum_up(replace(claim, turns=tuple(turns)), turns):
                return True
        except (StoreUnavailableError, LockLostError, TurnLogError):
            raise
        except Exception as error:  # noqa: BLE001 - an episode is derived: it is done without rather than tried for ever
            self._observer.work_failed(error)
        kept = await self._turn_log.session_turns(claim, limit=_EPISODE_TURNS)
        return {turn.id for turn in turns} <= {turn.id for turn in kept}

    # -- when it does not work -----------------------------------------------------------------------------------------

    async def _wait_for_store(self, claim: Claim, error: StoreUnavailableError | LockLostError) -> None:
        self._observer.store_failed("lock" if isinstance(error, LockLostError) else "retain", error)
        self._resume_at = self._clock.now() + self._pause(self._store_failures)
        self._store_failures += 1
        await self._turn_log.release(claim)

    async def _fail(self, claim: Claim, error: Exception) -> None:
        if not isinstance(error, MemoryServiceError):
            self._observer.work_failed(error)
        retry_at = self._clock.now() + self._pause(max((turn.attempts for turn in claim.turns), default=0))
        failure = _failure(error)
        dead = await self._turn_log.fail(claim, failure, retry_at=retry_at, max_attempts=self._config.max_attempts)
        extractor = "llm" if isinstance(error, ChatModelError | ExtractionParseError) else "rules"
        self._observer.extraction_finished(
            ExtractionReport(extractor=extractor, turns=len(claim.turns), failure=failure, dead_lettered=dead)
        )

    def _pause(self, failures: int) -> timedelta:
        return backoff(
            failures,
            first=timedelta(seconds=self._config.retry_seconds),
            longest=timedelta(seconds=self._config.retry_max_seconds),
            jitter=self._jitter(),
        )

    def _report(self, extractor: str, turns: int, candidates: Sequence[Candidate], written: Written) -> None:
        self._observer.extraction_finished(
            ExtractionReport(
                extractor=extractor, turns=turns, candidates=len(candidates), actions=dict(written.actions)
            )
        )


def _failure(error: Exception) -> str:
    """A short word for the log and the metrics; never the message, which may carry content."""
    match error:
        case ChatModelError():
            return "model_failed"
        case ExtractionParseError():
            return "parse_failed"
        case _:
            return type(error).__name__
