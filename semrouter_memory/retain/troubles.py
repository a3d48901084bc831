"""What becomes of a session whose step failed: it rests, or its turns count an attempt.

Strategy. A store or a lock that is away makes turns wait without counting an attempt: all sessions while the store says
so itself or has no room, else the one that was refused. A write that is refused again and again while the store is there counts, so that
it ends as a dead letter. What fails by itself counts at once. Pauses grow, and are spread.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import (
    ChatModelError,
    CircuitOpenError,
    ExtractionParseError,
    LockLostError,
    MemoryServiceError,
    ModelAwayError,
    StoreFullError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.model import Claim, ExtractionReport, LoggedTurn
from semrouter_memory.ports import Clock, MemoryReader, Observer, TurnLog
from semrouter_memory.retain import quotes
from semrouter_memory.retain.triggers import Rest, SessionKey, backoff

_T = TypeVar("_T")
_FREE_REFUSALS = 3
"""Refused writes of one session that may be an outage which the store has not noticed yet."""
_MAX_SESSIONS = 1_024


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A session that rests: failures in a row, and of these, writes that the store refused."""

    rest: Rest
    failures: int
    refusals: int


class Troubles:
    """Carries out steps, and remembers what rests.

    Args:
        reader: asked only whether the store is there.
        jitter: draws 0..1.
    """

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        observer: Observer,
        clock: Clock,
        config: RetainConfig,
        jitter: Callable[[], float],
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._observer = observer
        self._clock = clock
        self._config = config
        self._jitter = jitter
        self._store_failures = 0
        self._store_rest: Rest | None = None
        self._sessions: OrderedDict[SessionKey, _Trouble] = OrderedDict()

    @property
    def store_available(self) -> bool:
        return self._reader.available

    def store_rests(self, now: datetime) -> bool:
        """Whether nothing is to be written at all."""
        return not self._reader.available or (self._store_rest is not None and self._store_rest.holds(now))

    def rests(self, key: SessionKey, now: datetime) -> bool:
        """Whether this session is to be left alone."""
        trouble = self._sessions.get(key)
        return trouble is not None and trouble.rest.holds(now)

    async def guard(self, claim: Claim, key: SessionKey, turns: Sequence[LoggedTurn], work: Awaitable[_T]) -> _T | None:
        """The result of a step, or None when it failed; the claim is given back then.

        Args:
            turns: the turns that the step reads, which count an attempt when they are at fault.

        Raises:
            TurnLogError: the turn log failed.
        """
        part = replace(claim, turns=tuple(turns))
        try:
            result = await work
        except TurnLogError:
            raise
        except (StoreUnavailableError, LockLostError) as error:
            await self._wait(part, key, error)
        except Exception as error:  # noqa: BLE001 - whatever a turn does to us, its session goes on
            await self.fail(part, error)
        else:
            self._sessions.pop(key, None)
            self._store_failures, self._store_rest = 0, None
            return result
        return None

    async def fail(self, claim: Claim, error: Exception) -> None:
        """Count an attempt for the claim's turns and give it back."""
        if not isinstance(error, MemoryServiceError):
            self._observer.work_failed(error)
        retry_at = self._clock.now() + self.pause(max((turn.attempts for turn in claim.turns), default=0))
        dead = await self._turn_log.fail(
            claim, _failure(error), retry_at=retry_at, max_attempts=self._config.max_attempts
        )
        self.report(claim, error, dead_lettered=dead)

    async def back_off(self, claim: Claim, error: ModelAwayError, *, failures: int) -> None:
        """Give back a claim whose episode the model did not serve, for the time of a back-off; its turns are read.

        Args:
            failures: before this one.
        """
        longest = timedelta(seconds=self._config.retry_max_seconds)
        pause = min(max(self.pause(failures), timedelta(seconds=error.wait_seconds)), longest)
        retry_at = self._clock.now() + pause
        await self._turn_log.fail(claim, _failure(error), retry_at=retry_at, max_attempts=self._config.max_attempts)
        if not isinstance(error, CircuitOpenError):
            self.report(claim, error)

    def report(self, claim: Claim, error: Exception, *, dead_lettered: int = 0) -> None:
        """Tell the observer that a step with these turns failed."""
        extractor = "llm" if isinstance(error, ChatModelError | ExtractionParseError) else quotes.EXTRACTOR
        model = error if isinstance(error, ChatModelError) else None
        self._observer.extraction_finished(
            ExtractionReport(
                extractor=extractor,
                turns=len(claim.turns),
                failure=_failure(error),
                dead_lettered=dead_lettered,
                status=model.status if model else None,
                cause=model.cause if model else "",
            )
        )

    def pause(self, failures: int) -> timedelta:
        """The pause after so many failures before this one."""
        return backoff(
            failures,
            first=timedelta(seconds=self._config.retry_seconds),
            longest=timedelta(seconds=self._config.retry_max_seconds),
            jitter=self._jitter(),
        )

    async def _wait(self, claim: Claim, key: SessionKey, error: StoreUnavailableError | LockLostError) -> None:
        lock = isinstance(error, LockLostError)
        self._observer.store_failed("lock" if lock else "retain", error)
        if isinstance(error, StoreFullError) or (not lock and not self._reader.available):
            self._store_rest = Rest.of(self.pause(self._store_failures), self._clock.now())
            self._store_failures += 1
        elif self._refused(key, refusal=not lock):
            await self.fail(claim, error)
            return
        await self._turn_log.release(claim)

    def _refused(self, key: SessionKey, *, refusal: bool) -> bool:
        """Let the session rest; returns whether it is at fault by now."""
        before = self._sessions.pop(key, None)
        failures, refusals = (before.failures, before.refusals) if before else (0, 0)
        rest = Rest.of(self.pause(failures), self._clock.now())
        self._sessions[key] = _Trouble(rest, failures + 1, refusals + refusal)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return refusal and refusals >= _FREE_REFUSALS


def _failure(error: Exception) -> str:
    """A short word for the log and the metrics; never the message, which may carry content."""
    match error:
        case ChatModelError():
            return "model_failed"
        case ExtractionParseError():
            return "parse_failed"
        case StoreUnavailableError():
            return "write_refused"
        case _:
            return type(error).__name__
