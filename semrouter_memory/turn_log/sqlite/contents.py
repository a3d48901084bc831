"""What was said: the texts of turns, in one of two tables.

Strategy. SQLite overwrites what it deletes (`secure_delete`), but not what it moves: a row that it carried to another
page for balance may stay behind in the old page's unused middle, and is found there after the row was deleted. Making
a table anew is what leaves nothing behind, and VACUUM would do it in one transaction, with every append waiting. So
texts lie in two tables of which one takes the new turns. A compaction switches to the other table, migrates what is
still wanted, a few turns at a time, and empties the old table as a whole, which overwrites all its pages.

A turn's row in `turns` holds no text, and a trigger deletes its contents with it. Methods that write need an open write
transaction.
"""

import sqlite3
from collections.abc import Iterable

from semrouter_memory.turn_log.rows import ERASED, Content

_TABLES = ("contents_0", "contents_1")
_MIGRATE_BATCH = 32
"""Turns that one transaction of a compaction migrates, so that appends never wait long for it."""


class Contents:
    """Reads and writes contents through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def insert(self, sequence: int, content: Content) -> None:
        (table,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        self._connection.execute(
            f"INSERT INTO contents_{table} VALUES (?, ?, ?)",  # noqa: S608 - constants
            (sequence, content.user_value(), content.answer_value()),
        )

    def get(self, sequences: Iterable[int]) -> dict[int, Content]:
        return {each: content for each in sequences if (content := self._get(each)) is not None}

    def _get(self, sequence: int) -> Content | None:
        for table in _TABLES:
            select = f"SELECT user, answer FROM {table} WHERE turn = ?"  # noqa: S608 - constants
            if row := self._connection.execute(select, (sequence,)).fetchone():
                return Content.of_values(*row)
        return None

    def erase(self, sequences: Iterable[int], *, user_texts: bool) -> None:
        """Erase the answers of these turns, with or without the user's own words."""
        own = ", user = ?2" if user_texts else ""
        arguments = [(sequence, ERASED)[: 1 + user_texts] for sequence in sequences]
        for table in _TABLES:
            self._connection.executemany(f"UPDATE {table} SET answer = NULL{own} WHERE turn = ?1", arguments)  # noqa: S608 - constants

    # -- compaction ----------------------------------------------------------------------------------------------------

    def switch_table(self) -> None:
        """From now on new turns go to the other table."""
        self._connection.execute("UPDATE counters SET contents = 1 - contents")

    def migrate_batch(self) -> bool:
        """Move some turns to the table that takes the new ones; the last time, overwrite the emptied table.

        Returns:
            Whether there is more to move.
        """
        (current,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        old, new = f"contents_{1 - current}", f"contents_{current}"
        rows = self._connection.execute(f"SELECT turn FROM {old} ORDER BY turn LIMIT ?", (_MIGRATE_BATCH,)).fetchall()  # noqa: S608 - a constant
        if not rows:
            # The last page is the table's own and stays; without a condition, SQLite overwrites all of it.
            self._connection.execute(f"DELETE FROM {old}")  # noqa: S608 - a constant
            return False
        (last,) = rows[-1]
        self._connection.execute(
            f"INSERT INTO {new} SELECT * FROM {old} WHERE turn <= ?",  # noqa: S608 - constants
            (last,),
        )
        self._connection.execute(f"DELETE FROM {old} WHERE turn <= ?", (last,))  # noqa: S608 - a constant
        return True
