"""The turn log in a local SQLite file (implements the `TurnLog` port)."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import Appended, Claim, Message, PendingSession, Scope, Tombstone, Turn, TurnTotals
from semrouter_memory.ports import Clock, NewId
from semrouter_memory.sessions.append import Appending
from semrouter_memory.sessions.claims import Claims
from semrouter_memory.sessions.columns import storable
from semrouter_memory.sessions.database import Database, failing_as_turn_log_error
from semrouter_memory.sessions.deletion import SWEEP_BATCH, Deletion
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.history import chain_messages
from semrouter_memory.sessions.identify import Identification
from semrouter_memory.sessions.tombstones import OwnerTombstones, TombstoneReader

_T = TypeVar("_T")

_MAX_SESSION_ID_CHARS = 128


def random_id() -> str:
    return uuid.uuid4().hex


class SqliteTurnLog:
    """Accepted turns in one file, readable by its owner only.

    `append`, `tombstones` and `history` run where they are called, on the event loop's thread; everything else runs in one thread
    of the log's own, in the order in which it was asked for. Several processes may open the same file.

    Args:
        path: the file; it and its directory are made when they are missing.
        new_id: draws what new session ids and claim tokens are made of: ASCII, never the same twice.
        max_turn_chars: bound on a turn's user texts together (the last ones are kept), and on its answer.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path, *, clock: Clock, new_id: NewId = random_id, max_turn_chars: int = 64_000) -> None:
        self._clock = clock
        self._database = Database(path)
        digests = Digests(self._database.digest_key)
        local, background = self._database.local, self._database.background
        self._digests = digests
        self._identification = Identification(local, digests)
        self._appending = Appending(local, digests, self._identification, new_id=new_id, max_turn_chars=max_turn_chars)
        self._tombstones = TombstoneReader(local, digests.content_hash)
        self._claims = Claims(background, digests, new_id=new_id)
        self._deletion = Deletion(background, digests)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turn-log")

    def content_hash(self, content: str) -> str:
        """What a `Tombstone` of this log carries in place of the deleted statement."""
        return self._digests.content_hash(content)

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        with self._database.writing(self._database.local, "append"):
            appended = self._appending.append(turn, remember=remember)
        if self._database.checkpoint_due:
            self._submit(self._database.checkpoint)
        return appended

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        with failing_as_turn_log_error("tombstones"):
            return self._tombstones.of(scope)

    # -- in the log's own thread ---------------------------------------------------------------------------------------

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        # At once, not in the thread: a request waits for it, and must not stand behind a checkpoint. A few rows, by key.
        with failing_as_turn_log_error("history"):
            return chain_messages(self._database.local, self._identification, scope, previous_response_id, limit=limit)

    async def pending(self) -> list[PendingSession]:
        pending = await self._reading("pending", partial(self._claims.pending, self._clock.now()))
        self._submit(self._database.checkpoint)
        return pending

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        claiming = partial(
            self._claims.claim,
            scope,
            storable(session_id, _MAX_SESSION_ID_CHARS),
            now=self._clock.now(),
            lease=lease,
            context=context,
        )
        future = self._submit(partial(self._write, "claim", claiming))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # The thread may be at it already; then nobody knows the token, and the session would wait for its lease.
            future.add_done_callback(self._abandon)
            raise

    async def surviving(self, claim: Claim) -> frozenset[str]:
        return await self._reading("surviving", partial(self._claims.surviving, claim))

    async def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None:
        await self._writing("mark_rules_done", partial(self._claims.mark_rules_done, claim, turn_ids))

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        await self._writing("finish", partial(self._claims.finish, claim, outcomes, now=self._clock.now()))

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        return await self._writing(
            "fail", partial(self._claims.fail, claim, error, retry_at=retry_at, max_attempts=max_attempts)
        )

    async def release(self, claim: Claim) -> None:
        await self._writing("release", partial(self._claims.release, claim))

    async def bury(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        await self._writing("bury", partial(self._deletion.bury, tombstone, turn_ids))
        await asyncio.wrap_future(self._submit(self._database.erase))

    async def sweep(self, *, finished_before: datetime) -> int:
        swept = 0
        while batch := await self._writing("sweep", partial(self._deletion.sweep_turns, finished_before)):
            swept += batch
            if batch < SWEEP_BATCH:
                break
        if swept:
            await asyncio.wrap_future(self._submit(self._database.erase))
        return swept

    async def totals(self) -> TurnTotals:
        return await self._reading("totals", self._claims.totals)

    def close(self) -> None:
        """Let the thread end what it was asked for, then close the file."""
        self._thread.shutdown()
        self._database.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    async def _writing(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(self._submit(partial(self._write, operation, work)))

    async def _reading(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(self._submit(partial(_read, operation, work)))

    def _write(self, operation: str, work: Callable[[], _T]) -> _T:
        with self._database.writing(self._database.background, operation):
            return work()

    def _submit(self, work: Callable[[], _T]) -> Future[_T]:
        try:
            return self._thread.submit(work)
        except RuntimeError:
            raise TurnLogError("the turn log is closed") from None

    def _abandon(self, future: Future[Claim | None]) -> None:
        with suppress(CancelledError, TurnLogError):
            claim = future.result()
            if claim is not None:
                self._submit(partial(self._write, "release", partial(self._claims.release, claim)))


def _read(operation: str, work: Callable[[], _T]) -> _T:
    with failing_as_turn_log_error(operation):
        return work()
