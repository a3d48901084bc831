"""What retain's steps work with, and what happens to a session whose step failed: it cools down, or its turns count an attempt.

Strategy. While the store or a lock is unavailable, turns wait without counting an attempt: all sessions when the store is
known to be unavailable or full, otherwise the refused one. A write that is refused repeatedly by an available store counts,
so that it ends as a dead letter. Any other failure counts at once. Pauses grow, with jitter.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from cachetools import LRUCache

from semrouter_memory.backends import Backends
from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import (
    ChatModelError,
    LockLostError,
    MemoryServiceError,
    ModelUnavailableError,
    StoreUnavailableError,
    TurnLogError,
    failure_of,
)
from semrouter_memory.events import ExtractionFinished, StoreFailed, WorkFailed
from semrouter_memory.model import Candidate, Claim, LoggedTurn, SessionKey
from semrouter_memory.ports import ChatModel
from semrouter_memory.resilience import Backoff, Cooldown
from semrouter_memory.retain import quotes
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter, Written
from semrouter_memory.retain.scheduling import NO_FAILURE, FailureRecord

_T = TypeVar("_T")
_FREE_REFUSALS = 3
"""Refused writes of one session that may be an outage which the store has not detected yet."""
_MAX_SESSIONS = 1_024


class SessionStateBuilder(Protocol):
    """Keeps what a long conversation can be shortened with. Never raises; what it cannot build is done without."""

    async def turns_read(self, claim: Claim, turns: Sequence[LoggedTurn], candidates: Sequence[Candidate]) -> None:
        """Turns of a claim were read by an extractor, and this was found in them; the claim is still held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainParts:
    """What the steps work with.

    Attributes:
        chat_model: with the role `memory_extraction`.
        batch_size: turns that one prompt carries.
        states: receives every turn that was read; None when session states are not stored.
    """

    backends: Backends
    writer: ReconcilingWriter
    chat_model: ChatModel | None
    config: RetainConfig
    batch_size: int
    states: SessionStateBuilder | None = None

    async def turns_read(
        self, claim: Claim, turns: Sequence[LoggedTurn], candidates: Sequence[Candidate], extractor: str, found: Written
    ) -> None:
        """Tell of turns that were read, and of what became of the candidates."""
        if self.states is not None:
            await self.states.turns_read(claim, turns, candidates)
        actions = dict(found.actions)
        self.backends.observer.observe(
            ExtractionFinished(extractor=extractor, turns=len(turns), candidates=len(candidates), actions=actions)
        )


class FailurePolicy:
    """Runs steps, and records which sessions cool down.

    Args:
        jitter: draws 0..1.
    """

    def __init__(self, parts: RetainParts, *, jitter: Callable[[], float]) -> None:
        config, backends = parts.config, parts.backends
        self._turn_log, self._reader = backends.turn_log, backends.store
        self._observer, self._clock = backends.observer, backends.clock
        self._max_attempts = config.max_attempts
        self._backoff = Backoff(first=config.retry_seconds, longest=config.retry_max_seconds)
        self._jitter = jitter
        self._store_failures = 0
        self._store_cooldown: Cooldown | None = None
        self._sessions: LRUCache[SessionKey, FailureRecord] = LRUCache(_MAX_SESSIONS)

    @property
    def store_available(self) -> bool:
        return self._reader.available

    def is_store_cooling_down(self, now: datetime) -> bool:
        """Whether no session can be written."""
        return not self._reader.available or (self._store_cooldown is not None and self._store_cooldown.active(now))

    def is_cooling_down(self, key: SessionKey, now: datetime) -> bool:
        """Whether no step of this session is tried."""
        return self._sessions.get(key, NO_FAILURE).cools_down(now)

    async def guard(self, claim: Claim, turns: Sequence[LoggedTurn], work: Awaitable[_T]) -> _T | None:
        """The result of a step, or None when it failed; the claim is then released.

        Args:
            turns: the turns that the step reads; they count an attempt when they are at fault.

        Raises:
            TurnLogError: the turn log failed.
        """
        part = replace(claim, turns=tuple(turns))
        try:
            result = await work
        except TurnLogError:
            raise
        except (StoreUnavailableError, LockLostError) as error:
            await self._wait(part, error)
        except Exception as error:  # noqa: BLE001 - a turn that breaks a step must not stop its session
            await self.fail(part, error)
        else:
            self._sessions.pop(claim.key, None)
            self._store_failures, self._store_cooldown = 0, None
            return result
        return None

    async def fail(self, claim: Claim, error: Exception) -> None:
        """Count an attempt for the claim's turns and release it."""
        if not isinstance(error, MemoryServiceError):
            self._observer.observe(WorkFailed(error))
        retry_at = self._clock.now() + self.pause(max((turn.attempts for turn in claim.turns), default=0))
        dead = await self._turn_log.fail(claim, failure_of(error), retry_at=retry_at, max_attempts=self._max_attempts)
        self.report(claim, error, dead_lettered=dead)

    async def back_off(self, claim: Claim, error: ModelUnavailableError, *, failures: int) -> None:
        """Release a claim whose episode the model did not write, until a back-off ends; its turns are read.

        Args:
            failures: before this one.
        """
        longest = timedelta(seconds=self._backoff.longest)
        pause = min(max(self.pause(failures), timedelta(seconds=error.wait_seconds)), longest)
        retry_at = self._clock.now() + pause
        await self._turn_log.fail(claim, failure_of(error), retry_at=retry_at, max_attempts=self._max_attempts)
        if not error.circuit_open:
            self.report(claim, error)

    def report(self, claim: Claim, error: Exception, *, dead_lettered: int = 0) -> None:
        """Report a failed step with these turns."""
        extractor = "llm" if isinstance(error, ChatModelError) else quotes.EXTRACTOR
        model = error if isinstance(error, ChatModelError) else None
        self._observer.observe(
            ExtractionFinished(
                extractor=extractor,
                turns=len(claim.turns),
                failure=failure_of(error),
                dead_lettered=dead_lettered,
                status=model.status if model else None,
                cause=model.cause if model else "",
            )
        )

    def pause(self, failures: int) -> timedelta:
        """The pause after a failure, when so many preceded it."""
        return timedelta(seconds=self._backoff.delay(failures, self._jitter()))

    async def _wait(self, claim: Claim, error: StoreUnavailableError | LockLostError) -> None:
        lock = isinstance(error, LockLostError)
        self._observer.observe(StoreFailed("lock" if lock else "retain", error))
        if (isinstance(error, StoreUnavailableError) and error.disk_full) or (not lock and not self._reader.available):
            self._store_cooldown = Cooldown.of(self.pause(self._store_failures), self._clock.now())
            self._store_failures += 1
        elif self._refused(claim.key, refusal=not lock):
            await self.fail(claim, error)
            return
        await self._turn_log.release(claim)

    def _refused(self, key: SessionKey, *, refusal: bool) -> bool:
        """Let the session cool down; returns whether it is at fault by now."""
        before = self._sessions.get(key, NO_FAILURE)
        cooldown = Cooldown.of(self.pause(before.failures), self._clock.now())
        self._sessions[key] = FailureRecord(before.failures + 1, before.mark + refusal, cooldown)
        return refusal and before.mark >= _FREE_REFUSALS
