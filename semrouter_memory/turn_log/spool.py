"""The turns that are accepted here and not forwarded to Redis yet: a table of the local turn log file.

Strategy. One commit per turn, on the event loop's thread, as durable as an append of the SQLite turn log (see `databases/sqlite.py`).
Everything else runs in one thread.

Each opening of the file is a *run* with a random name, and turns are numbered in the file. Redis remembers the last number
of each run, so a turn is forwarded once whatever happens between its arrival there and its deletion here; and a file in an
older state (power cut, restored copy) neither repeats turns nor passes new ones off as old.
"""

import sqlite3
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from semrouter_memory.databases import micros, pack, unpack
from semrouter_memory.databases.sqlite import Database
from semrouter_memory.model import Reach, Scope, Tombstone
from semrouter_memory.turn_log.client_values import BoundedTurn

_SHARED_KEY = "shared_key"
_REDACT = "UPDATE spool SET payload = NULL, owner = x'', project_id = x''"
_PAYLOAD = TypeAdapter(BoundedTurn)


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


def spooled_turns(path: Path) -> int:
    """How many turns wait in a file that no process has open; 0 when there is none, or none that can be read."""
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM spool").fetchone()[0])
    except sqlite3.Error:
        return 0


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
            row = self._database.local.execute("SELECT value FROM settings WHERE name = ?", (_SHARED_KEY,)).fetchone()
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
        await self._execute("remember key", "INSERT OR REPLACE INTO settings VALUES (?, ?)", (_SHARED_KEY, key))

    async def _select(self, statement: str, arguments: tuple[object, ...] = ()) -> list[Any]:
        return await self._database.run(
            "read", lambda: self._database.background.execute(statement, arguments).fetchall()
        )

    async def _execute(self, operation: str, statement: str, arguments: tuple[object, ...]) -> None:
        await self._database.write(operation, lambda: self._database.background.execute(statement, arguments).close())


def _unpacked(owner: bytes, project: bytes) -> Scope:
    """The scope; of a redacted turn one that owns nothing."""
    return Scope.of_owner(unpack(owner), unpack(project)) if owner else Scope("")
