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
from collections.abc import Iterable, Sequence

from semrouter_memory.turn_log.rows import Content

_TABLES = ("contents_0", "contents_1")
_COLUMNS = "turn, tools, user_texts, assistant_text, items"
_READ = ("tools", "user_texts", "assistant_text", "items", "model")
_MIGRATE_BATCH = 32
"""Turns that one transaction of a compaction migrates, so that appends never wait long for it."""


class Contents:
    """Reads and writes contents through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def insert(self, sequence: int, content: Content) -> None:
        (table,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        self._connection.execute(
            f"""INSERT INTO contents_{table} ({_COLUMNS})
                VALUES (:turn, :tools, :user_texts, :assistant_text, :items)""",  # noqa: S608 - constants
            {"turn": sequence, **content.columns()},
        )

    def get(self, sequences: Iterable[int]) -> dict[int, Content]:
        return {each: content for each in sequences if (content := self._get(each)) is not None}

    def _get(self, sequence: int) -> Content | None:
        for table in _TABLES:
            row = self._connection.execute(
                f"""SELECT {", ".join(_READ)} FROM {table} JOIN turns ON turns.sequence = {table}.turn
                    WHERE {table}.turn = ?""",  # noqa: S608 - constants
                (sequence,),
            ).fetchone()
            if row:
                return Content.of_columns(dict(zip(_READ, row, strict=True)))
        return None

    def erase(self, sequences: Sequence[int], *, user_texts: bool) -> None:
        """Erase the answers of these turns, with or without the user's own words."""
        own = ", user_texts = x'5b5d'" if user_texts else ""
        for table in _TABLES:
            self._connection.executemany(
                f"UPDATE {table} SET assistant_text = '', tools = x'5b5d', items = NULL{own} WHERE turn = ?",  # noqa: S608 - constants
                [(sequence,) for sequence in sequences],
            )

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
            f"INSERT INTO {new} ({_COLUMNS}) SELECT {_COLUMNS} FROM {old} WHERE turn <= ?",  # noqa: S608 - constants
            (last,),
        )
        self._connection.execute(f"DELETE FROM {old} WHERE turn <= ?", (last,))  # noqa: S608 - a constant
        return True
