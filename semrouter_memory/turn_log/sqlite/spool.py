"""The turns that are accepted here and not forwarded to Redis yet: a table of the local turn log file.

Strategy. One commit per turn, on the event loop's thread, as durable as an append of the SQLite turn log (see database.py).
Everything else runs in one thread.

Each opening of the file is a *run* with a random name, and turns are numbered within it. Redis remembers the last number
of each run, so a turn is forwarded once whatever happens between its arrival there and its deletion here; and a file that
comes back older than it was (power cut, restored copy) neither repeats turns nor has new ones taken for old.
"""

import itertools
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import Reach, Scope, Tombstone
from semrouter_memory.turn_log.columns import micros, pack, unpack
from semrouter_memory.turn_log.sqlite.database import Database

T = TypeVar("T")

_SHARED_KEY = "shared_key"
_REDACT = "UPDATE spool SET payload = NULL, user_id = x'', project_id = x'', agent_id = x''"


@dataclass(frozen=True, slots=True)
class SpooledTurn:
    """A turn on its way.

    Attributes:
        key: where it stands in this file.
        run: with `number`, what Redis knows it by.
        payload: None for a turn that was deleted meanwhile.
    """

    key: int
    run: str
    number: int
    complete: bool
    scope: Scope
    payload: bytes | None


class Spool:
    """An open spool.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self.failures = self._database.failures
        self.run = uuid.uuid4().hex
        self._numbers = itertools.count(1)

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, scope: Scope, payload: bytes, *, observed_at: int, complete: bool) -> None:
        """Commit a turn."""
        ids = (pack(scope.user_id), pack(scope.project_id), pack(scope.agent_id))
        with self._database.writing_local("append"):
            self._database.local.execute(
                """INSERT INTO spool (run, number, complete, observed_at, user_id, project_id, agent_id, payload)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                (self.run, next(self._numbers), complete, observed_at, *ids, payload),
            )
        self._database.checkpoint_if_due()

    def digest_key(self) -> bytes | None:
        """The shared key, as it was known last."""
        with self.failures.of("shared key"):
            row = self._database.local.execute("SELECT value FROM settings WHERE name = ?", (_SHARED_KEY,)).fetchone()
        return bytes(row[0]) if row else None

    # -- in the thread -------------------------------------------------------------------------------------------------

    async def first(self, limit: int, *, after: int) -> list[SpooledTurn]:
        """The turns beyond that key that wait longest, in the order in which they were accepted."""
        return await self._database.run("read", lambda: self._first(limit, after))

    async def remove(self, through: int) -> None:
        """All turns up to that key."""
        await self._database.write("remove", lambda: self._remove(through))

    async def requeue(self, spooled: SpooledTurn) -> int:
        """Let the others go first; returns its number in this run."""
        number = next(self._numbers)
        await self._execute(
            "requeue",
            "UPDATE spool SET key = (SELECT max(key) + 1 FROM spool), run = ?, number = ? WHERE key = ? AND run = ?",
            (self.run, number, spooled.key, spooled.run),
        )
        return number

    async def redact_covered(self, tombstone: Tombstone) -> None:
        """Erase what was said in turns that a deletion of a scope covers. Their counts stay."""
        scope, reach = tombstone.scope, tombstone.reach
        await self._execute(
            "redact",
            f"""{_REDACT} WHERE payload IS NOT NULL AND user_id = ? AND (? = ? OR project_id = ?) AND observed_at <= ?""",
            (pack(scope.user_id), reach, Reach.ALL, pack(scope.project_id), micros(tombstone.at)),
        )

    async def redact(self, spooled: SpooledTurn) -> None:
        """The same for one turn, which a deletion covered when it arrived."""
        await self._execute("redact", f"{_REDACT} WHERE key = ?", (spooled.key,))

    async def runs(self) -> list[str]:
        select = "SELECT DISTINCT run FROM spool"
        return await self._database.run(
            "runs", lambda: [run for (run,) in self._database.background.execute(select).fetchall()]
        )

    async def accepted_after(self, forwarded: Mapping[str, int]) -> int:
        """How many complete turns wait, beyond the numbers that Redis has of each run."""
        return await self._database.run("count", lambda: self._accepted_after(forwarded))

    async def remember_digest_key(self, key: bytes) -> None:
        await self._execute("remember key", "INSERT OR REPLACE INTO settings VALUES (?, ?)", (_SHARED_KEY, key))

    async def checkpoint(self) -> None:
        with suppress(TurnLogError):
            await self._database.run("checkpoint", self._database.checkpoint)

    async def erase(self) -> bool:
        """Sync, and take what was deleted out of the write-ahead log too; False when a reader prevents it for now."""
        return await self._database.run("erase", self._database.erase)

    async def compact(self) -> None:
        """Overwrite everything in the file that is not in use, and empty the write-ahead log."""
        await self._database.run("compact", self._database.vacuum)
        await self.erase()

    async def backup(self, directory: Path) -> None:
        await self._database.backup(directory)

    def close(self) -> None:
        self._database.close()

    # -- the work ------------------------------------------------------------------------------------------------------

    def _first(self, limit: int, after: int) -> list[SpooledTurn]:
        rows = self._database.background.execute(
            """SELECT key, run, number, complete, user_id, project_id, agent_id, payload
               FROM spool WHERE key > ? ORDER BY key LIMIT ?""",
            (after, limit),
        ).fetchall()
        return [
            SpooledTurn(key, run, number, bool(complete), Scope(unpack(user), unpack(project), unpack(agent)), payload)
            for key, run, number, complete, user, project, agent, payload in rows
        ]

    def _remove(self, through: int) -> None:
        self._database.background.execute("DELETE FROM spool WHERE key <= ?", (through,))
        if self._database.background.execute("SELECT 1 FROM spool LIMIT 1").fetchone() is None:
            # Without a condition, SQLite gives all pages back at once, and overwrites them.
            self._database.background.execute("DELETE FROM spool")

    def _accepted_after(self, forwarded: Mapping[str, int]) -> int:
        rows = self._database.background.execute("SELECT run, number FROM spool WHERE complete").fetchall()
        return sum(number > forwarded.get(run, 0) for run, number in rows)

    async def _execute(self, operation: str, statement: str, arguments: tuple[object, ...]) -> None:
        await self._database.write(operation, lambda: self._database.background.execute(statement, arguments).close())
