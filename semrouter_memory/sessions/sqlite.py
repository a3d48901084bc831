"""The turn log in a local SQLite file (implements the `TurnLog` and `TurnRecords` ports)."""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import (
    Appended,
    Claim,
    LoggedTurn,
    Message,
    PendingSession,
    Scope,
    StoredChain,
    Tombstone,
    Turn,
    TurnState,
    TurnTotals,
)
from semrouter_memory.ports import Clock, NewId
from semrouter_memory.sessions import records
from semrouter_memory.sessions.append import Appending
from semrouter_memory.sessions.claims import Claimed, Claims
from semrouter_memory.sessions.columns import MAX_SESSION_ID_CHARS, micros, moment, pack, storable
from semrouter_memory.sessions.connections import copy_file
from semrouter_memory.sessions.contents import Contents
from semrouter_memory.sessions.database import BATCH_COMMITS, BATCH_LOG_PAGES, Database
from semrouter_memory.sessions.deletion import SWEEP_BATCH, Deletion, latest_time
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.ends import Ends
from semrouter_memory.sessions.history import History
from semrouter_memory.sessions.hybrid_clock import HybridClock
from semrouter_memory.sessions.identify import Identification
from semrouter_memory.sessions.leases import LONGEST_BACK_OFF
from semrouter_memory.sessions.records import Records
from semrouter_memory.sessions.tombstones import OwnerTombstones, TombstoneReader

_T = TypeVar("_T")

_ERASE_ATTEMPTS = 100
_ERASE_PAUSE_SECONDS = 0.05
"""A reader of another process keeps the write-ahead log from being emptied: it is asked for five seconds."""
_BATCH_PAUSE_SECONDS = 0.002
_CLOSED = "the turn log is closed"


def random_id() -> str:
    return uuid.uuid4().hex


class SqliteTurnLog:
    """Accepted turns in one file, readable by its owner only.

    `append`, `tombstones` and `history` run where they are called, on the event loop's thread; what else only reads has
    a thread of its own, and everything else runs in another one, in the order in which it was asked for. Several
    processes may open the same file.

    Args:
        path: the file; it and its directory are made when they are missing.
        new_id: draws what new session ids and claim tokens are made of: ASCII, never the same twice.
        max_turn_chars: bound on a turn's user texts together (the last ones are kept), and on its answer.
        longest_back_off: how far after now `fail` is told to retry at most; what lies much further ahead counts as past.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        new_id: NewId = random_id,
        max_turn_chars: int = 64_000,
        longest_back_off: timedelta = LONGEST_BACK_OFF,
    ) -> None:
        self._clock = clock
        self._times = HybridClock(clock)
        self._database = Database(path)
        digests = Digests(self._database.digest_key)
        local, background, reading = self._database.local, self._database.background, self._database.reading
        self._digests = digests
        identification = Identification(local, digests)
        self._appending = Appending(local, digests, identification, new_id=new_id, max_turn_chars=max_turn_chars)
        self._history = History(local, digests, identification)
        self._tombstones = TombstoneReader(local, digests.content_hash, self._times)
        self._claims = Claims(background, digests, new_id=new_id, longest_back_off=longest_back_off)
        self._ends = Ends(background, digests)
        self._deletion = Deletion(background, digests)
        self._contents = Contents(background)
        self._chains = History(reading, digests, Identification(reading, digests))
        self._records = Records(reading, digests)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turn-log")
        self._reading_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turn-log-reads")
        with self._database.failures.of("latest time"):
            self._times.pass_deletion(self._claims.latest_time())
        # What a killed process left of a deletion.
        self._submit(self._clear_buried)

    def content_hash(self, content: str) -> str:
        """What a `Tombstone` of this log carries in place of the deleted statement."""
        return self._digests.content_hash(content)

    def now(self) -> datetime:
        return self._times.now()

    async def timestamp(self) -> datetime:
        time = self._times.now()
        await self._writing("timestamp", partial(latest_time, self._database.background, micros(time)))
        return time

    @property
    def damage(self) -> str:
        return self._database.failures.damage

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        with self._database.writing_local("append"):
            appended = self._appending.append(turn, remember=remember)
        self._times.observe(micros(turn.observed_at))
        if self._database.checkpoint_due:
            self._submit(self._database.checkpoint)
        return appended

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        with self._database.failures.of("tombstones"):
            return self._tombstones.of(scope)

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        # At once: a request waits for it. A few rows, by key.
        with self._database.failures.of("history"):
            return self._history.messages(scope, previous_response_id, limit=limit)

    # -- in the thread that reads --------------------------------------------------------------------------------------

    async def chain(self, scope: Scope, previous_response_id: str, *, limit: int) -> StoredChain:
        return await self._looking("chain", partial(self._chains.chain, scope, previous_response_id, limit=limit))

    async def list_turns(
        self, *, scope: Scope | None, states: frozenset[TurnState] | None, limit: int, before: int = 0
    ) -> list[LoggedTurn]:
        return await self._looking(
            "list_turns", partial(self._records.list_turns, scope, states, limit=limit, before=before)
        )

    async def get_turn(self, turn_id: str) -> LoggedTurn | None:
        return await self._looking("get_turn", partial(self._records.get_turn, turn_id))

    # -- in the log's own thread ---------------------------------------------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        self._database.require_file()
        pending = await self._reading("pending", partial(self._claims.pending, self._clock.now()))
        self._times.pass_deletion(await self._reading("pending", self._claims.latest_time))
        self._submit(self._database.checkpoint)
        return pending

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        name = storable(session_id, MAX_SESSION_ID_CHARS)
        claiming = partial(self._claims.claim, scope, name, now=self._clock.now(), lease=lease)
        future = self._submit(partial(self._claim, claiming, context))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # The thread may be at it already; then nobody knows the token, and the session would wait for its lease.
            future.add_done_callback(self._abandon)
            raise

    async def surviving(self, claim: Claim) -> frozenset[str]:
        return await self._reading("surviving", partial(self._claims.surviving, claim))

    async def renew(self, claim: Claim, *, lease: timedelta) -> bool:
        return await self._writing("renew", partial(self._claims.renew, claim, now=self._clock.now(), lease=lease))

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

    async def session_turns(self, claim: Claim, *, limit: int) -> tuple[LoggedTurn, ...]:
        return await self._reading("session_turns", partial(self._claims.session_turns, claim, limit))

    async def mark_episode(self, claim: Claim, *, through: int) -> None:
        await self._writing("mark_episode", partial(self._claims.mark_episode, claim, through))

    async def end_session(self, scope: Scope, session: str) -> PendingSession | None:
        return await self._writing("end_session", partial(self._ends.end_session, scope, session))

    async def retry(self, turn_ids: Sequence[str]) -> int:
        work = partial(records.retry, self._database.background, self._digests, turn_ids)
        return await self._writing("retry", work)

    async def drop(self, turn_ids: Sequence[str]) -> int:
        dropped = await self._writing("drop", partial(self._deletion.drop, turn_ids))
        if dropped:
            await self._erase()
        return dropped

    async def bury(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        tombstone = replace(tombstone, at=max(tombstone.at, moment(self._times.latest)))
        try:
            self._times.pass_deletion(await self._writing("bury", partial(self._deletion.bury, tombstone, turn_ids)))
            while await self._batch("bury", self._deletion.clear_buried):
                pass
        except asyncio.CancelledError:
            self._submit(self._clear_buried)
            raise
        await self._erase()

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        erasing = partial(self._contents.erase_answers, pack(scope.user_id), micros(since))
        while await self._batch("erase_answers", erasing):
            pass
        await self._erase()

    async def sweep(self, *, finished_before: datetime) -> int:
        swept = 0
        while batch := await self._batch("sweep", partial(self._deletion.sweep_turns, finished_before)):
            swept += batch
            if batch < SWEEP_BATCH:
                break
        if swept:
            await self._erase()
        self._submit(self._clear_buried)
        return swept

    async def totals(self) -> TurnTotals:
        return await self._reading("totals", self._claims.totals)

    async def compact(self) -> None:
        """Take what was deleted before out of the files, batch by batch, while the log is in use (see contents.py).

        Raises:
            TurnLogError: another process keeps reading; what is deleted then is in the write-ahead log still.
        """
        for begin in (None, self._contents.turn_over):
            if begin:
                await self._writing("compact", begin)
            # At first, what an earlier compaction did not get to.
            while await self._batch("compact", self._contents.carry_over):
                pass
        for _ in range(_ERASE_ATTEMPTS):
            if await self._erase():
                return
            await asyncio.sleep(_ERASE_PAUSE_SECONDS)
        raise TurnLogError("turn log: compact failed: another process keeps reading")

    async def backup(self, directory: Path) -> None:
        def copy() -> None:
            with self._database.failures.of("backup"):
                copy_file(self._database.path, directory)

        try:
            await asyncio.to_thread(copy)
        except OSError as error:
            raise TurnLogError(f"turn log: backup failed: {error}") from error

    def close(self) -> None:
        """Let the threads end what they were asked for, then close the file."""
        self._thread.shutdown()
        self._reading_thread.shutdown()
        self._database.close()

    # -- the threads ---------------------------------------------------------------------------------------------------

    async def _writing(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(self._submit(partial(self._write, operation, work)))

    async def _batch(self, operation: str, work: Callable[[], _T]) -> _T:
        """One of many transactions that follow each other; through the loop, so that its own come in between."""
        return await asyncio.wrap_future(self._submit(partial(self._write_batch, operation, work)))

    async def _reading(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(self._submit(partial(self._read, operation, work)))

    def _write(self, operation: str, work: Callable[[], _T]) -> _T:
        with self._database.writing(operation):
            return work()

    def _read(self, operation: str, work: Callable[[], _T]) -> _T:
        with self._database.failures.of(operation):
            return work()

    def _claim(self, claiming: Callable[[], Claimed | None], context: int) -> Claim | None:
        taken = self._write("claim", claiming)
        return None if taken is None else self._read("claim", partial(self._claims.whole, taken, context=context))

    def _write_batch(self, operation: str, work: Callable[[], _T]) -> _T:
        with self._database.writing(operation, commits=BATCH_COMMITS):
            done = work()
        if self._database.checkpoint_due:
            self._database.checkpoint(long_log_pages=BATCH_LOG_PAGES)
        return done

    async def _looking(self, operation: str, work: Callable[[], _T]) -> _T:
        try:
            future = self._reading_thread.submit(partial(self._read, operation, work))
        except RuntimeError:
            raise TurnLogError(_CLOSED) from None
        return await asyncio.wrap_future(future)

    async def _erase(self) -> bool:
        return await asyncio.wrap_future(self._submit(self._database.erase))

    def _submit(self, work: Callable[[], _T]) -> Future[_T]:
        try:
            return self._thread.submit(work)
        except RuntimeError:
            raise TurnLogError(_CLOSED) from None

    def _clear_buried(self) -> None:
        with suppress(TurnLogError):
            while self._write_batch("bury", self._deletion.clear_buried):
                # The lock is not fair: an append that waits for it gets it in the pause.
                time.sleep(_BATCH_PAUSE_SECONDS)

    def _abandon(self, future: Future[Claim | None]) -> None:
        with suppress(CancelledError, TurnLogError):
            claim = future.result()
            if claim is not None:
                self._submit(partial(self._write, "release", partial(self._claims.release, claim)))
