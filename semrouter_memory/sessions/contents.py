"""What was said: the texts of turns, in one of two tables.

Strategy. SQLite overwrites what it deletes (`secure_delete`), but not what it moves: a row that it carried to another
page for balance may stay behind in the old page's unused middle, and is found there after the row was deleted. Making
a table anew is what leaves nothing behind, and VACUUM would do it in one transaction, with every append waiting. So
texts lie in two tables of which one takes the new turns. A compaction lets the other one take over, carries what is
still wanted there, a few turns at a time, and empties the old table as a whole, which overwrites all its pages.

A turn's row in `turns` holds no text, and a trigger deletes its contents with it. Methods that write need an open write
transaction.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.model import Json, ToolUse
from semrouter_memory.sessions.columns import (
    dump_texts,
    dump_tools,
    dump_transcripts,
    load_items,
    load_texts,
    load_tools,
    load_transcripts,
)

JOIN = """LEFT JOIN contents_0 AS one ON one.turn = turns.sequence
          LEFT JOIN contents_1 AS other ON other.turn = turns.sequence"""
"""Finds a turn's contents in whichever table they are."""

COLUMNS = """coalesce(one.tools, other.tools), coalesce(one.user_texts, other.user_texts),
             coalesce(one.assistant_text, other.assistant_text), coalesce(one.transcripts, other.transcripts),
             coalesce(one.items, other.items)"""
"""What `Content.of` takes, in a query with `JOIN`."""

_INSERT = tuple(
    f"INSERT INTO contents_{table} (turn, tools, user_texts, assistant_text, transcripts, items)"  # noqa: S608 - constants
    " VALUES (?, ?, ?, ?, ?, ?)"
    for table in (0, 1)
)
_COLUMNS = "turn, tools, user_texts, assistant_text, transcripts, items"
_ERASE_BATCH = 200
_MOVE_BATCH = 32
"""Turns that one transaction of a compaction carries over, so that appends never wait long for it."""


@dataclass(frozen=True, slots=True)
class Content:
    """What is kept of a turn's exchange. `items` is JSON."""

    tools: Sequence[ToolUse]
    user_texts: Sequence[str]
    assistant_text: str
    transcripts: Sequence[str] = ()
    items: bytes | None = None

    @classmethod
    def of(cls, columns: tuple[bytes, bytes, str, bytes | None, bytes | None]) -> "Content":
        tools, user_texts, assistant_text, transcripts, items = columns
        return cls(load_tools(tools), load_texts(user_texts), assistant_text, load_transcripts(transcripts), items)

    @property
    def parsed_items(self) -> tuple[Json, ...] | None:
        return load_items(self.items)


class Contents:
    """Reads and writes contents through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def insert(self, table: int, sequence: int, content: Content) -> None:
        """Keep a turn's contents in that table, the one that `counters.contents` names."""
        self._connection.execute(
            _INSERT[table],
            (
                sequence,
                dump_tools(content.tools),
                dump_texts(content.user_texts),
                content.assistant_text,
                dump_transcripts(content.transcripts),
                content.items,
            ),
        )

    def get(self, sequence: int) -> Content:
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM turns {JOIN} WHERE turns.sequence = ?",  # noqa: S608 - two constants
            (sequence,),
        ).fetchone()
        return Content.of(row)

    def learn_transcripts(self, sequence: int, hashes: Sequence[str]) -> None:
        """A repetition of the turn had another answer, from which the client may go on."""
        known = self.get(sequence).transcripts
        if set(hashes) <= set(known):
            return
        transcripts = dump_transcripts([*known, *hashes])
        for table in ("contents_0", "contents_1"):
            self._connection.execute(
                f"UPDATE {table} SET transcripts = ? WHERE turn = ?",  # noqa: S608 - a constant
                (transcripts, sequence),
            )

    # -- erasing -------------------------------------------------------------------------------------------------------

    def erase_answers(self, user_id: bytes, since: int) -> bool:
        """Erase the answers of one batch of a user's finished turns; the user's own words stay.

        Returns:
            Whether there may be more.
        """
        nothing = dump_tools(())
        erased = 0
        for table in ("contents_0", "contents_1"):
            erased += self._connection.execute(
                f"""UPDATE {table} SET assistant_text = '', tools = ?, items = NULL WHERE turn IN (
                        SELECT said.turn FROM sessions JOIN turns ON turns.session = sessions.key
                        JOIN {table} AS said ON said.turn = turns.sequence
                        WHERE sessions.user_id = ? AND turns.observed_at >= ? AND turns.state IN ('extracted', 'empty')
                        AND (said.assistant_text <> '' OR said.tools <> ? OR said.items IS NOT NULL) LIMIT ?)""",  # noqa: S608 - a constant
                (nothing, user_id, since, nothing, _ERASE_BATCH),
            ).rowcount
        return erased >= _ERASE_BATCH

    def erase_finished(self, session: int, sequences: Sequence[int]) -> None:
        """Erase the texts of these turns, as far as they had begun when a memory of their user was deleted."""
        for table in ("contents_0", "contents_1"):
            self._connection.executemany(
                f"""UPDATE {table} SET user_texts = ?, assistant_text = '', tools = ?, items = NULL WHERE turn = ?
                    AND EXISTS (SELECT 1 FROM turns, sessions JOIN tombstones ON tombstones.user_id = sessions.user_id
                        WHERE turns.sequence = {table}.turn AND sessions.key = ? AND tombstones.memory_id IS NOT NULL
                        AND tombstones.at >= turns.observed_at)""",  # noqa: S608 - a constant
                [(dump_texts(()), dump_tools(()), sequence, session) for sequence in sequences],
            )

    # -- compaction ----------------------------------------------------------------------------------------------------

    def turn_over(self) -> None:
        """From now on new turns go to the other table."""
        self._connection.execute("UPDATE counters SET contents = 1 - contents")

    def carry_over(self) -> bool:
        """Carry some turns to the table that takes the new ones; the last time, overwrite the emptied table.

        Returns:
            Whether there is more to carry over.
        """
        (current,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        old, new = f"contents_{1 - current}", f"contents_{current}"
        rows = self._connection.execute(f"SELECT turn FROM {old} ORDER BY turn LIMIT ?", (_MOVE_BATCH,)).fetchall()  # noqa: S608 - a constant
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
