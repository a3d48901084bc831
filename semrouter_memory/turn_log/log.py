"""The turn log: the ports' methods, over whatever storage (implements them with its subclasses).

Strategy of time: it is the system's, and never before what came before. A deletion covers what was said before it, so the
order of the two must not depend on a clock that can be set. Hence a hybrid logical clock: where the system's clock stands
before the latest time that the log knows of, times go on from that one, a microsecond each. The log stores the latest time
with every turn and every deletion, and a deletion is moved up to it. So it covers all that was accepted before it, and what
is said after it is later than it, also when the clock was set back in between, was wrong by years, or is another replica's.

What only measures (leases, back-offs, ages) takes the system's time: these times may stand still for as long as the
clock was wrong. A process learns of another one's times when it looks for work, about once a second.
"""

import asyncio
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases import micros, moment
from semrouter_memory.databases.sqlite import Database
from semrouter_memory.errors import MemoryServiceError
from semrouter_memory.model import (
    Appended,
    Claim,
    LoggedTurn,
    Message,
    PendingSession,
    Role,
    Scope,
    StoredChain,
    Tombstone,
    Turn,
    TurnState,
    TurnTotals,
)
from semrouter_memory.ports import Clock
from semrouter_memory.turn_log import claims, removal
from semrouter_memory.turn_log.appending import decide_append
from semrouter_memory.turn_log.client_values import MAX_SESSION_ID_CHARS, BoundedTurn, bounded, bounded_name, storable
from semrouter_memory.turn_log.rows import TurnRow
from semrouter_memory.turn_log.sqlite_rows import TURN_LOG_FILE
from semrouter_memory.turn_log.storage import Changes, LogRows, Storage, View, with_contents
from semrouter_memory.turn_log.tombstones import OwnerTombstones
from semrouter_memory.workers import BackgroundTasks


class HybridClock:
    """One process's hybrid logical clock; threads may share it.

    Attributes:
        latest: the latest time that is known, in microseconds since 1970.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.latest = 0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            system = micros(self._clock.now())
            self.latest = system if system >= self.latest else self.latest + 1
            return moment(self.latest)

    def observe(self, time: int) -> None:
        """From now on, times are not before that one, which another process or the log knows of."""
        with self._lock:
            self.latest = max(self.latest, time)

    def pass_deletion(self, time: int) -> None:
        """From now on, times are later than that of a deletion."""
        self.observe(time + 1)


class StoredTurnLog(Storage):
    """What every storage has in common.

    Args:
        config: bounds a turn's user texts together (the first ones are dropped), its answer, and how far ahead a back-off
            may end: one that ends much later counts as over. None: the defaults.
    """

    def __init__(self, path: Path, *, clock: Clock, config: RetainConfig | None = None) -> None:
        config = config or RetainConfig()
        self._database = Database(path, TURN_LOG_FILE)
        self._clock = clock
        self._times = HybridClock(clock)
        self._max_turn_chars = config.max_turn_chars
        self._longest_back_off = timedelta(seconds=config.retry_max_seconds)
        self._lease = claims.USUAL_LEASE
        self._tasks = BackgroundTasks()

    # -- the storage ---------------------------------------------------------------------------------------------------

    async def erase(self) -> None:
        """Sync, and take what was deleted out of the local files, unless a reader prevents it for now."""
        await self._database.run("erase", self._database.erase)

    @property
    def damage(self) -> str:
        return self._database.damage

    async def backup(self, directory: Path) -> None:
        """Copy the local file. Redis is backed up by its own means."""
        await self._database.backup(directory)

    def close(self) -> None:
        """Let the threads end what they were asked for, then close the file."""
        self._database.close()

    # -- time ----------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self._times.now()

    async def timestamp(self) -> datetime:
        time = self._times.now()

        async def keep(_: LogRows) -> tuple[Changes, None]:
            return Changes(latest=micros(time)), None

        await self.change("timestamp", Scope(""), keep)
        return time

    # -- appending -----------------------------------------------------------------------------------------------------

    def _bounded(self, turn: Turn, *, remember: bool) -> BoundedTurn:
        """The turn of an exchange that has just ended."""
        ended_at = micros(self._times.now())
        return bounded(turn, remember=remember, max_turn_chars=self._max_turn_chars, ended_at=ended_at)

    async def _appended(self, rows: LogRows, bound: BoundedTurn) -> tuple[Changes, Appended]:
        """Decides what becomes of a turn."""
        view = await View.of(rows, bound.turn.scope)
        return await decide_append(view, bound, new_id=new_id, max_turn_chars=self._max_turn_chars)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        return await self.read("history", lambda rows: _history(rows, scope, previous_response_id, limit))

    async def chain(self, scope: Scope, previous_response_id: str, *, limit: int) -> StoredChain:
        return await self.read("chain", lambda rows: _chain(rows, scope, previous_response_id, limit))

    async def list_turns(
        self, *, scope: Scope | None, states: frozenset[TurnState] | None, limit: int, before: int = 0
    ) -> list[LoggedTurn]:
        async def look(rows: LogRows) -> list[LoggedTurn]:
            owner, last = rows.digests.owner(scope) if scope is not None else None, before
            found: list[LoggedTurn] = []
            while batch := await rows.listed(owner, states, before=last, limit=limit - len(found)):
                found += await _whole(rows, batch)
                last = batch[-1].sequence
            return found

        return await self.read("list_turns", look)

    async def get_turn(self, turn_id: str) -> LoggedTurn | None:
        async def look(rows: LogRows) -> LoggedTurn | None:
            found = await rows.turns(removal.sequences(rows, [turn_id]))
            return next(iter(await _whole(rows, list(found.values()))), None)

        return await self.read("get_turn", look)

    async def totals(self) -> TurnTotals:
        return TurnTotals(**await self.read("totals", lambda rows: rows.counts()))

    # -- extracting ----------------------------------------------------------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        async def look(rows: LogRows) -> list[PendingSession]:
            self._times.pass_deletion(await rows.latest_time())
            now = micros(self._clock.now())
            return await claims.offered(rows, now=now, lease=self._lease, longest_back_off=self._longest_back_off)

        try:
            return await self.read("pending", look)
        finally:
            # The local file is synced also while Redis is unavailable.
            self._database.submit(self._database.checkpoint)

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        self._lease = lease
        task = asyncio.create_task(self._claim(scope, session_id, lease, context), name="claim")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # It may be taken already; then no worker knows the token, and the session would wait for its lease.
            with suppress(MemoryServiceError):
                if claim := await task:
                    await self.release(claim)
            raise

    async def _claim(self, scope: Scope, session_id: str, lease: timedelta, context: int) -> Claim | None:
        name, token, now = storable(session_id, MAX_SESSION_ID_CHARS), new_id(), self._clock.now()
        taken = await self.change(
            "claim", scope, lambda rows: claims.take(rows, scope, name, token=token, now=now, lease=lease)
        )
        if taken is None:
            return None
        read = partial(claims.whole, context=context, now=micros(now), longest_back_off=self._longest_back_off)
        try:
            return await self.read("claim", lambda rows: read(rows, taken))
        except Exception:
            # Or the session would wait for the end of a lease that nothing holds.
            with suppress(MemoryServiceError):
                await self.release(taken)
            raise

    async def surviving(self, claim: Claim) -> frozenset[str]:
        return await self.read("surviving", lambda rows: claims.surviving(rows, claim))

    async def session_turns(self, claim: Claim, *, limit: int) -> tuple[LoggedTurn, ...]:
        async def look(rows: LogRows) -> tuple[LoggedTurn, ...]:
            return tuple(await _whole(rows, await claims.last_turns(rows, claim, limit)))

        return await self.read("session_turns", look)

    async def is_called(self, claim: Claim, name: str) -> bool:
        async def look(rows: LogRows) -> bool:
            return claim.session_id in rows.digests.session_ids(claim.scope, bounded_name(name))

        return await self.read("is_called", look)

    async def renew(self, claim: Claim, *, lease: timedelta) -> bool:
        until = micros(self._clock.now() + lease)
        return bool((await self._held("renew", claim, partial(claims.renew, until=until))).sessions)

    async def release(self, claim: Claim) -> None:
        await self._held("release", claim, claims.release)

    async def mark_rules_done(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        found = _by_sequence(claim, outcomes)
        await self._held("mark_rules_done", claim, partial(claims.mark_rules_done, found=found))

    async def mark_episode(self, claim: Claim, *, through: int) -> None:
        await self._held("mark_episode", claim, partial(claims.mark_episode, through=through))

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        stored, now = _by_sequence(claim, outcomes), self._clock.now()
        await self._held("finish", claim, partial(claims.finish, stored=stored, now=now))

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        failing, at = {turn.sequence for turn in claim.turns}, micros(retry_at)
        decide = partial(claims.fail, failing=failing, error=error, retry_at=at, max_attempts=max_attempts)
        return (await self._held("fail", claim, decide)).counts["dead_lettered"]

    async def _held(self, operation: str, claim: Claim, decide: claims.Decide) -> Changes:
        return await self.change(operation, claim.scope, lambda rows: claims.held(rows, claim, decide))

    async def end_session(self, scope: Scope, session: str) -> PendingSession | None:
        name = bounded_name(session)
        return await self.change("end_session", scope, lambda rows: claims.end_session(rows, scope, name))

    # -- removing ------------------------------------------------------------------------------------------------------

    async def tombstone(self, deletion: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        # What the tombstone covers is deleted also when the caller is cancelled.
        await asyncio.shield(self._tasks.start(self._delete(deletion, turn_ids), name="tombstone"))

    async def _delete(self, deletion: Tombstone, turn_ids: Sequence[str]) -> None:
        stored = await self._commit(deletion)
        await removal.remove_named(self, stored.scope, turn_ids)
        if not stored.memory_id:
            await removal.purge(self, stored.scope)
        await self.erase()

    async def _commit(self, deletion: Tombstone) -> Tombstone:
        deletion = replace(deletion, at=max(deletion.at, moment(self._times.latest)))
        stored = await self.change("tombstone", deletion.scope, lambda rows: removal.tombstone(rows, deletion))
        self._times.pass_deletion(micros(stored.at))
        return stored

    async def set_paused(self, scope: Scope, *, paused: bool) -> None:
        at = self._times.now()
        change = await self.change("pause", scope, lambda rows: removal.set_paused(rows, scope, at, is_paused=paused))
        if change:
            self._times.pass_deletion(max(change.put.values()))

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        await removal.erase_answers(self, scope, micros(since))
        await self.erase()

    async def sweep(self, *, finished_before: datetime) -> int:
        await removal.purge_pending(self)
        return await self._erased(await removal.sweep(self, micros(finished_before)))

    async def retry(self, turn_ids: Sequence[str]) -> int:
        return await removal.retry(self, turn_ids)

    async def drop(self, turn_ids: Sequence[str]) -> int:
        return await self._erased(await removal.drop(self, turn_ids))

    async def _erased(self, removed: int) -> int:
        if removed:
            await self.erase()
        return removed


def new_id() -> str:
    """For session ids and claim tokens: never the same twice."""
    return uuid.uuid4().hex


def _by_sequence(claim: Claim, outcomes: Mapping[str, bool]) -> dict[int, bool]:
    return {turn.sequence: outcomes[turn.id] for turn in claim.turns if turn.id in outcomes}


async def _history(rows: LogRows, scope: Scope, response_id: str, limit: int) -> list[Message]:
    """The last messages of the chain, oldest first; incomplete turns are part of it."""
    # A turn has a message at least (but for one that lost its beginning), so `limit` turns are enough.
    view = await View.of(rows, scope)
    links = await view.chain(scope, bounded_name(response_id), limit)
    contents = await rows.contents(links)
    messages: list[Message] = []
    for row in reversed(links):
        if content := contents.get(row.sequence):
            messages += [Message(Role.USER, text) for text in content.user_texts]
            messages += [Message(Role.ASSISTANT, content.assistant_text)] if content.assistant_text else []
    return messages[-limit:] if limit > 0 else []


async def _chain(rows: LogRows, scope: Scope, response_id: str, limit: int) -> StoredChain:
    """The last turns of the chain, oldest first."""
    view = await View.of(rows, scope)
    response_id = bounded_name(response_id)
    links = await view.chain(scope, response_id, limit)
    turns = await with_contents(rows, links)
    complete = (
        bool(links)
        and len(turns) == len(links)
        and all(turn.items is not None for turn in turns)
        and _reaches_its_beginning(links, rows.digests.response_key(scope, response_id))
    )
    return StoredChain(turns=tuple(turns[::-1]), complete=complete)


def _reaches_its_beginning(links: Sequence[TurnRow], response: str) -> bool:
    """Whether each turn, newest first, ends with the very response that the next one continues, and the oldest begins.

    A turn is found by every response that its repetitions had; its items end with one of them.
    """
    expected: str | None = response
    for row in links:
        if row.response != expected:
            return False
        expected = row.previous
    return expected == ""


async def _whole(rows: LogRows, found: Sequence[TurnRow]) -> list[LoggedTurn]:
    """Turns of any owner that are not deleted."""
    tombstones: dict[str, OwnerTombstones] = {}
    for owner in {row.owner for row in found}:
        tombstones[owner] = await rows.tombstones(owner)
    visible = [row for row in found if not tombstones[row.owner].hides(row)]
    return await with_contents(rows, visible)
