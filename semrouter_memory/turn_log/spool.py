"""The turns that are accepted here and on their way to Redis: a table of the local turn log file, and what forwards them.

Strategy of the spool. One commit per turn, on the event loop's thread, as durable as an append of the SQLite turn log (see
`databases/sqlite.py`). Everything else runs in one thread.

Each opening of the file is a *run* with a random name, and turns are numbered in the file. Redis remembers the last number
of each run, so a turn is forwarded once whatever happens between its arrival there and its deletion here; and a file in an
older state (power cut, restored copy) neither repeats turns nor passes new ones off as old.

Strategy of forwarding. One loop, in the background: what is spooled is sent in order and in small batches, each turn in its
own transaction, beginning after the last number that Redis has of a run. While Redis is unavailable the loop waits for it
(the connection looks again with growing pauses) and holds no turns in memory.

Redis answers before what it was told is safe on its disk (`appendfsync everysec`). So a turn stays in the spool for
`KEPT_SECONDS` after its arrival, and is deleted when Redis still has its number; a Redis that restarts without it is
sent it again.

A turn that fails for another reason gets a run of its own, which is tried again with growing pauses: one bad turn holds up
no other.
"""

import asyncio
import random
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from semrouter_memory.databases import micros, pack, unpack
from semrouter_memory.databases.redis_connection import RedisConnection, reported_as
from semrouter_memory.databases.sqlite import Database
from semrouter_memory.errors import MemoryServiceError, TurnLogError
from semrouter_memory.model import Appended, AppendOutcome, Reach, Scope, Tombstone
from semrouter_memory.resilience import Backoff
from semrouter_memory.turn_log.client_values import BoundedTurn
from semrouter_memory.turn_log.redis_rows import Keys
from semrouter_memory.turn_log.sqlite_rows import SHARED_KEY
from semrouter_memory.workers import BackgroundTasks

_REDACT = "UPDATE spool SET payload = NULL, owner = x'', project_id = x''"
_PAYLOAD = TypeAdapter(BoundedTurn)

KEPT_SECONDS = 5.0
"""Redis writes and syncs within two seconds, even when its disk is busy."""

_BATCH = 32
_BACKOFF = Backoff(first=0.05, longest=30.0, spread=0.5)


@dataclass(frozen=True, slots=True)
class SpooledTurn:
    """A turn on its way.

    Attributes:
        run: with `number`, what Redis knows it by.
        payload: None for a turn that was deleted meanwhile.
    """

    run: str
    number: int
    complete: bool
    scope: Scope
    payload: bytes | None


def dump(bound: BoundedTurn) -> bytes:
    """All of the turn but its scope."""
    return orjson.dumps(replace(bound, turn=replace(bound.turn, scope=Scope(""))), default=bytes.decode)


def load(payload: bytes, scope: Scope) -> BoundedTurn:
    """The turn again.

    Raises:
        ValueError: it cannot be read; the message says nothing of it.
    """
    try:
        bound = _PAYLOAD.validate_json(payload)
    except ValidationError:
        raise ValueError("a spooled turn cannot be read") from None
    return replace(bound, turn=replace(bound.turn, scope=scope))


class Spool:
    """The spool in an open file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run = uuid.uuid4().hex

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, bound: BoundedTurn) -> None:
        """Commit a turn."""
        turn, scope = bound.turn, bound.turn.scope
        owner, project, payload = pack(scope.owner), pack(scope.project_id), dump(bound)
        with self._database.writing_local("append"):
            self._database.local.execute(
                """INSERT INTO spool (run, complete, observed_at, owner, project_id, payload)
                   VALUES (?, ?, ?, ?, ?, ?)""",
                (self._run, turn.complete, micros(turn.observed_at), owner, project, payload),
            )

    def digest_key(self) -> bytes | None:
        """The shared key, as it was known last."""
        with self._database.reporting("shared key"):
            row = self._database.local.execute("SELECT value FROM settings WHERE name = ?", (SHARED_KEY,)).fetchone()
        return bytes(row[0]) if row else None

    # -- in the thread -------------------------------------------------------------------------------------------------

    async def runs(self) -> list[str]:
        """Those with turns in the file, the oldest first."""
        return [run for run, _ in await self._select("SELECT run, min(number) FROM spool GROUP BY run ORDER BY 2")]

    async def after(self, run: str, number: int, limit: int) -> list[SpooledTurn]:
        """The next turns of a run."""
        rows = await self._select(
            """SELECT number, complete, owner, project_id, payload FROM spool
               WHERE run = ? AND number > ? ORDER BY number LIMIT ?""",
            (run, number, limit),
        )
        return [
            SpooledTurn(run, number, bool(complete), _unpacked(owner, project), payload)
            for number, complete, owner, project, payload in rows
        ]

    async def holds(self, numbers: Mapping[str, int]) -> bool:
        """Whether turns up to these numbers of the runs are in the file."""
        select = "SELECT 1 FROM spool WHERE run = ? AND number <= ? LIMIT 1"
        return any([await self._select(select, each) for each in numbers.items()])

    async def accepted_after(self, numbers: Mapping[str, int]) -> int:
        """How many complete turns wait, beyond these numbers of the runs."""
        rows = await self._select("SELECT run, number FROM spool WHERE complete")
        return sum(number > numbers.get(run, 0) for run, number in rows)

    async def remove(self, numbers: Mapping[str, int]) -> None:
        """All turns up to these numbers of the runs."""

        def work() -> None:
            background = self._database.background
            background.executemany("DELETE FROM spool WHERE run = ? AND number <= ?", numbers.items())
            if background.execute("SELECT 1 FROM spool LIMIT 1").fetchone() is None:
                # Without a condition, SQLite gives all pages back at once, and overwrites them.
                background.execute("DELETE FROM spool")

        await self._database.write("remove", work)

    async def set_aside(self, spooled: SpooledTurn) -> str:
        """Give a turn a run of its own, since it holds up those behind it; returns the run."""
        run = uuid.uuid4().hex
        await self._execute(
            "set aside",
            "UPDATE spool SET run = ? WHERE run = ? AND number = ?",
            (run, spooled.run, spooled.number),
        )
        return run

    async def redact_covered(self, tombstone: Tombstone) -> None:
        """Erase what was said in turns that a deletion of a scope covers. Their counts stay."""
        scope, reach = tombstone.scope, tombstone.reach
        await self._execute(
            "redact",
            f"""{_REDACT} WHERE payload IS NOT NULL AND owner = ? AND (? = ? OR project_id = ?) AND observed_at <= ?""",
            (pack(scope.owner), reach, Reach.ALL, pack(scope.project_id), micros(tombstone.at)),
        )

    async def redact(self, spooled: SpooledTurn) -> None:
        """The same for one turn, which a deletion covered when it arrived."""
        await self._execute("redact", f"{_REDACT} WHERE run = ? AND number = ?", (spooled.run, spooled.number))

    async def remember_digest_key(self, key: bytes) -> None:
        await self._execute("remember key", "INSERT OR REPLACE INTO settings VALUES (?, ?)", (SHARED_KEY, key))

    async def _select(self, statement: str, arguments: tuple[object, ...] = ()) -> list[Any]:
        return await self._database.run(
            "read", lambda: self._database.background.execute(statement, arguments).fetchall()
        )

    async def _execute(self, operation: str, statement: str, arguments: tuple[object, ...]) -> None:
        await self._database.write(operation, lambda: self._database.background.execute(statement, arguments).close())


def _unpacked(owner: bytes, project: bytes) -> Scope:
    """The scope; of a redacted turn one that owns nothing."""
    return Scope.of_owner(unpack(owner), unpack(project)) if owner else Scope("")


# -- forwarding --------------------------------------------------------------------------------------------------------


class Forwarder:
    """Forwards one spool.

    Args:
        take: takes a turn in, once (see `RedisTurnLog`).
        forwarded: told of each turn that has arrived and waits: whose it is, and its session.
        on_error: told of errors that are bugs, not outages.
    """

    def __init__(
        self,
        spool: Spool,
        connection: RedisConnection,
        keys: Keys,
        take: Callable[[SpooledTurn], Awaitable[Appended | None]],
        *,
        forwarded: Callable[[Scope, str], object],
        on_error: Callable[[BaseException], object],
    ) -> None:
        self._spool = spool
        self._connection = connection
        self._keys = keys
        self._take = take
        self._forwarded = forwarded
        self._on_error = on_error
        self._held_seconds = KEPT_SECONDS
        self._spooled = asyncio.Event()
        self._spooled.set()
        self.pausing = asyncio.Lock()
        """While this is held, nothing is on its way."""
        self._held: deque[tuple[float, dict[str, int]]] = deque()
        """What has arrived and is still in the spool: until when, and up to which number of each run."""
        self._held_since = connection.disturbances
        self._failed_runs: set[str] = set()
        self._try_again_at = 0.0
        self._retries = 0
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._tasks.start(self._run(), name="turn-forwarder")

    def wake(self) -> None:
        """Something was spooled."""
        self._spooled.set()

    async def forward(self, *, all_of_it: bool = True) -> list[Appended]:
        """Forward all that is spooled now; what became of it, in order.

        Args:
            all_of_it: what failed before, too.

        Raises:
            TurnLogError: Redis is unavailable; what had not arrived stays in the spool.
        """
        appended: list[Appended] = []
        async with self.pausing:
            with reported_as(TurnLogError, "turn log: forwarding"):
                if all_of_it:
                    self._failed_runs.clear()
                if self._held_since != self._connection.disturbances:
                    self._held.clear()
                    self._held_since = self._connection.disturbances
                numbers = await self.arrived(run for run in await self._spool.runs() if run not in self._failed_runs)
                for run in numbers:
                    while turns := await self._spool.after(run, numbers[run], _BATCH):
                        for turn in turns:
                            await self._forward_one(turn, numbers, appended)
                        # Here too: traffic that comes as fast as it is forwarded never lets this loop end.
                        await self._remove_due(numbers)
                await self._remove_due(numbers)
        return appended

    async def settle(self) -> None:
        """Return when nothing is in the spool any more of what was spooled before now: what has arrived stays in it a while.

        Raises:
            TurnLogError: Redis is unavailable.
        """
        await self.forward()
        numbers = await self.arrived(await self._spool.runs())
        while await self._spool.holds(numbers):
            if self._held:
                await asyncio.sleep(self._held[0][0] - asyncio.get_running_loop().time())
            await self.forward()

    async def stop(self, seconds: float) -> None:
        """End the loop, then forward what can be forwarded within that time."""
        await self._tasks.stop()
        if self._connection.available:
            with suppress(MemoryServiceError, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.forward()

    # -- one turn ------------------------------------------------------------------------------------------------------

    async def _forward_one(self, turn: SpooledTurn, numbers: dict[str, int], appended: list[Appended]) -> None:
        try:
            outcome = await self._take(turn)
        except MemoryServiceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a turn, the others go on
            self._failed_runs.add(await self._spool.set_aside(turn))
            self._on_error(error)
            return
        numbers[turn.run] = turn.number
        if outcome is None:
            return
        appended.append(outcome)
        if outcome.outcome is AppendOutcome.ACCEPTED:
            self._forwarded(turn.scope, outcome.session_id)
        elif outcome.outcome is AppendOutcome.FORGOTTEN:
            # Not after a while, as the others: its user has deleted it.
            await self._spool.redact(turn)

    # -- what has arrived ----------------------------------------------------------------------------------------------

    async def arrived(self, runs: Iterable[str]) -> dict[str, int]:
        """The last number of each run that Redis has."""
        wanted = list(runs)
        numbers = await self._connection.execute_all(("GET", self._keys("spool", run)) for run in wanted)
        return {run: int(number or 0) for run, number in zip(wanted, numbers, strict=True)}

    async def _remove_due(self, numbers: dict[str, int]) -> None:
        """Note what has arrived, and delete the turns whose time in the spool is over, if Redis has them still."""
        now = asyncio.get_running_loop().time()
        arrived = {run: number for run, number in numbers.items() if number}
        if arrived and (not self._held or self._held[-1][1] != arrived):
            # One entry for the turns of a second, which stay for that much longer.
            is_recent = self._held and self._held[-1][0] > now + self._held_seconds
            until = self._held.pop()[0] if is_recent else now + self._held_seconds + 1
            self._held.append((until, arrived))
        due = [entry for until, entry in self._held if until <= now]
        if not due:
            return
        over = {run: number for entry in due for run, number in entry.items()}
        known = await self.arrived(over)
        if any(known[run] < number for run, number in over.items()):
            # Redis has lost some: the next pass sends them again.
            self._held.clear()
            self._spooled.set()
            return
        await self._spool.remove(over)
        # Not before: what could not be removed is due again.
        for _ in due:
            self._held.popleft()

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wait_for_work()
            await self._connection.wait()
            self._spooled.clear()
            try:
                await self._forward_what_is_due()
            except MemoryServiceError:
                pass
            except Exception as error:  # noqa: BLE001 - the loop is the only way from the spool to Redis
                self._on_error(error)
            else:
                failures = 0
                continue
            self._spooled.set()
            await asyncio.sleep(_pause(failures))
            failures += 1

    async def _forward_what_is_due(self) -> None:
        """What was spooled, and when their pause is over the turns that failed."""
        now = asyncio.get_running_loop().time()
        is_over = now >= self._try_again_at
        await self.forward(all_of_it=is_over)
        if not self._failed_runs:
            self._retries = 0
        elif is_over:
            self._try_again_at = now + _pause(self._retries)
            self._retries += 1

    async def _wait_for_work(self) -> None:
        """Until something was spooled, the time in the spool of what has arrived is over, or a pause is over."""
        moments = [self._held[0][0]] if self._held else []
        if self._failed_runs:
            moments.append(self._try_again_at)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(moments, default=None)):
                await self._spooled.wait()


def _pause(failures: int) -> float:
    return _BACKOFF.delay(failures, random.random())  # noqa: S311 - no secret
