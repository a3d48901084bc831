"""Keeps one connection open: opens it, finds out that it is lost, reopens it. Callers never wait for any of this.

Strategy: callers report the outcome of each call. A lost connection is dropped at once. A connection that did not answer in
time is *suspect*: it stays in use, and a probe decides. While there is no connection, callers fail at once, and one task
reconnects. Writes that failed calls left half done are settled before a new connection is used, and after every probe.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.events import StoreStateChanged
from semrouter_memory.ports import Observer
from semrouter_memory.resilience import Backoff, is_cancelled
from semrouter_memory.workers import BackgroundTasks

PATIENCE = 3
"""Unanswered calls in a row that make a connection suspect. One is not enough: a client that disconnects looks the same."""

PROBE_SECONDS = 1.0
"""Twenty times the deadline of a search: a store that takes longer is unavailable."""


class Closeable(Protocol):
    """What a supervisor keeps open."""

    async def probe(self) -> None:
        """Ask something that works only if recall would; raises `StoreUnavailableError`."""

    async def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Closeable)

UNSETTLED_SECONDS = 10.0
"""Pause before another attempt to settle half-done writes over a connection that works."""


class ConnectionSupervisor(Generic[ConnectionT]):
    """Supervises one connection.

    Args:
        connect: opens a connection, in bounded time. Raises `StoreUnavailableError`, and `ConfigurationError` when a retry
            cannot help.
        backoff: between two attempts to reconnect.
        observer: receives every change of availability.
        settle: completes writes that earlier calls left half done. Returns whether all are complete; raises
            `StoreUnavailableError` when the connection does not work.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ConnectionT]],
        *,
        backoff: Backoff,
        observer: Observer,
        settle: Callable[[ConnectionT], Awaitable[bool]],
    ) -> None:
        self._connect = connect
        self._settle_all = settle
        self._backoff = backoff
        self._observer = observer
        self._current: ConnectionT | None = None
        self._unanswered = 0
        self._attention = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._retired: list[ConnectionT] = []
        self._announced: StoreStateChanged | None = None

    @property
    def is_up(self) -> bool:
        return self._current is not None

    async def start(self) -> None:
        """Connect once, and supervise from then on.

        Raises:
            ConfigurationError: of the first attempt.
        """
        try:
            await self._open()
        except StoreUnavailableError as error:
            self._announce(available=False, detail=str(error))
            self._attention.set()
        self._tasks.start(self._supervise(), name="store-connection")

    async def close(self) -> None:
        await self._tasks.stop()
        if self._current is not None:
            self._retired.append(self._current)
            self._current = None
        await self._close_retired()

    def connection(self) -> ConnectionT:
        """The open connection; raises `StoreUnavailableError` at once when there is none."""
        if self._current is None:
            raise StoreUnavailableError("the store is not connected")
        return self._current

    # -- outcomes of calls ---------------------------------------------------------------------------------------------

    def answered(self) -> None:
        self._unanswered = 0

    def unanswered(self, connection: ConnectionT) -> None:
        """A call was cancelled before there was an answer."""
        self._unanswered += 1
        if self._unanswered >= PATIENCE:
            self.mark_suspect(connection)

    def mark_suspect(self, connection: ConnectionT) -> None:
        """Something is wrong with a connection; a probe decides. An earlier connection's trouble is ignored."""
        if connection is self._current:
            self._attention.set()

    def mark_down(self, connection: ConnectionT, detail: str) -> None:
        """The connection is lost. An earlier connection's loss is ignored."""
        if connection is self._current:
            self._retired.append(connection)
            self._current = None
            self._unanswered = 0
            self._announce(available=False, detail=detail)
            self._attention.set()

    # -- supervision ---------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        while not is_cancelled():
            await self._attention.wait()
            self._attention.clear()
            await self._probe()
            failures = 0
            while self._current is None and not is_cancelled():
                await self._close_retired()
                if not await self._reopen():
                    await asyncio.sleep(self._backoff.delay(failures, random.random()))  # noqa: S311 - no secret
                    failures += 1

    async def _probe(self) -> None:
        if (connection := self._current) is None:
            return
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await connection.probe()
            await self._settle(connection)
        except TimeoutError:
            self.mark_down(connection, f"probe: no answer within {PROBE_SECONDS} s")
        except StoreUnavailableError as error:
            self.mark_down(connection, str(error))
        except Exception as error:  # noqa: BLE001 - same as in `_reopen`
            self.mark_down(connection, _unexpected(error))
        else:
            self.answered()

    async def _reopen(self) -> bool:
        try:
            await self._open()
        except StoreUnavailableError:
            return False
        except ConfigurationError as error:
            # The server returned with an unusable collection. The operator may mend it there, so keep trying.
            self._announce(available=False, detail=str(error))
            return False
        except Exception as error:  # noqa: BLE001 - without this task the store would stay unavailable for good
            self._announce(available=False, detail=_unexpected(error))
            return False
        return True

    async def _open(self) -> None:
        connection = await self._connect()
        try:
            await self._settle(connection)
        except BaseException:
            self._retired.append(connection)
            raise
        self._current = connection
        self._unanswered = 0
        self._announce(available=True, detail="connected")

    async def _settle(self, connection: ConnectionT) -> None:
        if not await self._settle_all(connection):
            asyncio.get_running_loop().call_later(UNSETTLED_SECONDS, self._attention.set)

    async def _close_retired(self) -> None:
        while self._retired:
            with contextlib.suppress(Exception):
                await self._retired.pop().close()

    def _announce(self, *, available: bool, detail: str) -> None:
        event = StoreStateChanged(available=available, detail=detail)
        # The same state with another detail is news: a server may return with an unusable collection.
        if event != self._announced:
            self._announced = event
            self._observer.observe(event)


def _unexpected(error: Exception) -> str:
    """The type alone: the text of an error that is not ours may quote content."""
    return f"unexpected {type(error).__name__}"
