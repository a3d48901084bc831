"""From a finished exchange to memories: accept the turn, then extract, reconcile and write in the background.

Strategy. `accept` commits the turn to the turn log and returns; from then on the log is the truth, and a crash at any
point loses nothing, because work is repeated until the log says that it is finished, and duplicates nothing, because
reconciling the same statement again skips it. The rules run at once; a model is asked when a trigger fires, outside the
owner's lock. A store that is away makes turns wait without counting an attempt; what fails by itself is tried again
with growing pauses, and given up after `max_attempts`.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import (
    ChatModelError,
    ExtractionParseError,
    MemoryServiceError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.model import Appended, AppendOutcome, Candidate, Claim, ExtractionReport, LoggedTurn, Scope, Turn
from semrouter_memory.ports import (
    ChatModel,
    Clock,
    Embedder,
    MemoryReader,
    MemoryWriter,
    NewId,
    Observer,
    OwnerLocks,
    TurnLog,
)
from semrouter_memory.retain import rules
from semrouter_memory.retain.accepting import cleaned
from semrouter_memory.retain.extract_llm import LlmExtractor, batch_of
from semrouter_memory.retain.triggers import Pace, Trigger, backoff, due
from semrouter_memory.retain.writing import ReconcilingWriter, Written

_SCENE_TURNS = 20
"""Earlier turns that the rules look at for whom "she" means and whether a role-play is on."""
_SWEEP_EVERY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Names a session's work; the same key is never worked on twice at a time."""

    scope: Scope
    session_id: str


class Retainer:
    """Accepts turns and extracts them.

    Args:
        wake: asks for `process(key)` to be run soon; may be ignored, the next tick asks again.
        jitter: draws 0..1.
    """

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        writer: MemoryWriter,
        embedder: Embedder,
        chat_model: ChatModel | None,
        locks: OwnerLocks,
        observer: Observer,
        clock: Clock,
        new_id: NewId,
        config: RetainConfig,
        extraction_batch_size: int,
        wake: Callable[[SessionKey], object],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._extractor = LlmExtractor(chat_model) if chat_model else None
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
        self._writer = ReconcilingWriter(
            turn_log=turn_log,
            reader=reader,
            writer=writer,
            embedder=embedder,
            locks=locks,
            clock=clock,
            new_id=new_id,
        )
        self._model_due: set[SessionKey] = set()
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
        if appended.outcome is AppendOutcome.ACCEPTED:
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
        self._model_due.clear()
        for session in await self._turn_log.pending():
            if trigger := due(session, now, self._pace):
                key = SessionKey(session.scope, session.session_id)
                if trigger is not Trigger.RULES:
                    self._model_due.add(key)
                self._wake(key)

    async def _sweep(self, now: datetime) -> None:
        if self._swept_at is None or now - self._swept_at >= _SWEEP_EVERY:
            self._swept_at = now
            await self._turn_log.sweep(finished_before=now - timedelta(days=self._config.turn_retention_days))

    # -- extracting ----------------------------------------------------------------------------------------------------

    async def process(self, key: SessionKey) -> None:
        """Extract one session's waiting turns, as far as they are due.

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
            await self._extract(claim, key)
        except asyncio.CancelledError:
            await self._turn_log.release(claim)
            raise
        except TurnLogError:
            raise
        except StoreUnavailableError as error:
            await self._wait_for_store(claim, error)
        except Exception as error:  # noqa: BLE001 - whatever a turn does to us, its session goes on
            await self._fail(claim, error)
        else:
            self._store_failures, self._resume_at = 0, None

    async def _extract(self, claim: Claim, key: SessionKey) -> None:
        known = await self._run_rules(claim)
        if known is None:
            await self._turn_log.release(claim)
        elif self._extractor is None:
            await self._turn_log.finish(claim, {turn.id: turn.id in known for turn in claim.turns})
        elif self._model_is_due(claim, key):
            await self._run_model(claim, key, known, self._extractor)
        else:
            await self._turn_log.release(claim)

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
        written = await self._writer.write(claim, candidates)
        if written is None:
            return None
        await self._turn_log.mark_rules_done(claim, [turn_id for turn_id in new if turn_id in written.alive])
        self._report("rules", len(new), candidates, written)
        return known | written.sources

    def _model_is_due(self, claim: Claim, key: SessionKey) -> bool:
        """Whether the model is asked now. After a failure only a tick can tell, since it knows the back-off's end."""
        if key in self._model_due:
            self._model_due.discard(key)
            return True
        if any(turn.attempts for turn in claim.turns):
            return False
        return len(claim.turns) >= self._pace.batch_size or any(
            rules.asks_to_remember(turn.user_text) for turn in claim.turns
        )

    async def _run_model(self, claim: Claim, key: SessionKey, known: set[str], extractor: LlmExtractor) -> None:
        batch = batch_of(claim.turns, limit=self._pace.batch_size)
        candidates = await extractor.extract(batch, self._context_of(claim))
        written = await self._writer.write(claim, candidates, needed=frozenset(turn.id for turn in batch))
        if written is None:
            await self._turn_log.release(claim)
            return
        self._report("llm", len(batch), candidates, written)
        await self._turn_log.finish(claim, {turn.id: turn.id in known | written.sources for turn in batch})
        if len(batch) < len(claim.turns):
            self._wake(key)

    def _context_of(self, claim: Claim) -> Sequence[LoggedTurn]:
        count = self._config.context_turns
        return claim.context[-count:] if count else ()

    # -- when it does not work -----------------------------------------------------------------------------------------

    async def _wait_for_store(self, claim: Claim, error: StoreUnavailableError) -> None:
        self._observer.store_failed("retain", error)
        self._resume_at = self._clock.now() + self._pause(self._store_failures)
        self._store_failures += 1
        await self._turn_log.release(claim)

    async def _fail(self, claim: Claim, error: Exception) -> None:
        if not isinstance(error, MemoryServiceError):
            self._observer.work_failed(error)
        retry_at = self._clock.now() + self._pause(max(turn.attempts for turn in claim.turns))
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
