"""Keeps one connection open: opens it, notices that it is gone, opens it anew. Callers never wait for any of this.

Strategy: who uses the connection reports how that went. A lost connection is given up at once; one that only did not
answer in time is *doubted*, and one question of our own decides. While there is none, callers fail at once, and one task
tries to open another. What failed calls left half done is settled before a new connection is given to callers, and after
a doubt is cleared.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.ports import Observer

PATIENCE = 3
"""So many unanswered calls in a row make a connection doubtful. A client that goes away looks the same, hence not one."""

PROBE_SECONDS = 1.0
"""Twenty times what recall waits for a search: who does not answer within this is away."""


class Closeable(Protocol):
    """What a link keeps open."""

    async def probe(self) -> None:
        """Ask something that works only if recall would; raises `StoreUnavailableError`."""
        ...

    async def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Closeable)

UNSETTLED_SECONDS = 10.0
"""After so long it is tried again to settle what could not be, though the connection serves."""


async def _nothing_to_settle(_connection: object) -> bool:
    return True


class Link(Generic[ConnectionT]):
    """One connection that comes back by itself.

    Args:
        connect: opens a connection, in bounded time. Raises `StoreUnavailableError`, and `ConfigurationError` when
            trying again will not help.
        pause_seconds: between two attempts.
        observer: is told when the connection comes and goes.
        settle: completes what earlier calls left half done. Returns whether all of it is complete; raises
            `StoreUnavailableError` when the connection does not serve.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ConnectionT]],
        *,
        pause_seconds: float,
        observer: Observer,
        settle: Callable[[ConnectionT], Awaitable[bool]] = _nothing_to_settle,
    ) -> None:
        self._connect = connect
        self._settle_all = settle
        self._pause_seconds = pause_seconds
        self._observer = observer
        self._current: ConnectionT | None = None
        self._unanswered = 0
        self._attention = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._retired: list[ConnectionT] = []
        self._announced: tuple[bool, str] | None = None

    @property
    def is_up(self) -> bool:
        return self._current is not None

    async def start(self) -> None:
        """Try once, and from then on for ever.

        Raises:
            ConfigurationError: the first attempt says that trying again will not help.
        """
        try:
            await self._open()
        except StoreUnavailableError as error:
            self._announce(available=False, detail=str(error))
            self._attention.set()
        self._keeper = asyncio.create_task(self._keep(), name="store-link")

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._current is not None:
            self._retired.append(self._current)
            self._current = None
        await self._close_retired()

    def connection(self) -> ConnectionT:
        """The open connection; raises `StoreUnavailableError` at once when there is none."""
        if self._current is None:
            raise StoreUnavailableError("the store is not connected")
        return self._current

    # -- how it went ---------------------------------------------------------------------------------------------------

    def answered(self) -> None:
        self._unanswered = 0

    def unanswered(self, connection: ConnectionT) -> None:
        """A call was given up before there was an answer."""
        self._unanswered += 1
        if self._unanswered >= PATIENCE:
            self.doubt(connection)

    def doubt(self, connection: ConnectionT) -> None:
        """Something is wrong that a question of our own should clear up."""
        if connection is self._current:
            self._attention.set()

    def lost(self, connection: ConnectionT, detail: str) -> None:
        """The connection is gone. Said of an earlier one, it says nothing about the current one."""
        if connection is self._current:
            self._retired.append(connection)
            self._current = None
            self._unanswered = 0
            self._announce(available=False, detail=detail)
            self._attention.set()

    # -- the keeper ----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await self._attention.wait()
            self._attention.clear()
            await self._question()
            while self._current is None:
                await self._close_retired()
                if not await self._reopen():
                    await asyncio.sleep(self._pause_seconds)

    async def _question(self) -> None:
        if (connection := self._current) is None:
            return
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await connection.probe()
            await self._settle(connection)
        except TimeoutError:
            self.lost(connection, f"probe: no answer within {PROBE_SECONDS} s")
        except StoreUnavailableError as error:
            self.lost(connection, str(error))
        else:
            self.answered()

    async def _reopen(self) -> bool:
        try:
            await self._open()
        except StoreUnavailableError:
            return False
        except ConfigurationError as error:
            # The server came back as another one: somebody must act, and may do so there, so go on trying.
            self._announce(available=False, detail=str(error))
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
            with contextlib.suppress(StoreUnavailableError):
                await self._retired.pop().close()

    def _announce(self, *, available: bool, detail: str) -> None:
        if (available, detail) != self._announced:
            self._announced = (available, detail)
            self._observer.store_state_changed(available=available, detail=detail)
