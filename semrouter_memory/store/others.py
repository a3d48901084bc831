"""Other collections at the same place, whatever embedding they were made for: read as a whole, or dropped.

Nothing here reads a vector, so the dimension and the embedding of such a collection do not matter.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from semrouter_memory.model import Memory
from semrouter_memory.store import schema
from semrouter_memory.store.connection import PREPARE_SECONDS, MilvusConnection
from semrouter_memory.store.schema import Row

BATCH = 500
"""Rows in one answer: texts of the greatest length stay below 64 MiB."""

Call = Callable[[MilvusConnection], Awaitable[Any]]


class Ask(Protocol):
    """How the store makes one call."""

    async def __call__(self, operation: str, call: Call, *, seconds: float | None = None) -> Any: ...


class OtherCollections:
    """Beside the store's own collection. Raises `StoreUnavailableError`.

    Args:
        ask: makes a call that reads.
        write: makes a call that changes something.
    """

    def __init__(self, ask: Ask, write: Callable[[str, Call], Awaitable[Any]]) -> None:
        self._ask = ask
        self._write = write

    async def embeddings(self) -> dict[str, str]:
        """The collections that this service made, by name, with the fingerprint of the embedding of each.

        Left out are those of a newer version of this service: what their columns mean is not known here.
        """
        found: dict[str, str] = await self._ask("describe", MilvusConnection.embeddings)
        return found

    async def load(self, name: str) -> None:
        """Make it answer; one that nobody uses is not in memory."""
        await self._ask("load", lambda store: store.beside(name).load(), seconds=PREPARE_SECONDS)

    async def unnamed(self, name: str) -> int:
        """How many memories of a loaded collection `scan` leaves out, since nobody can say whose they are."""
        count, last_key = 0, ""
        while rows := await self._rows(name, last_key, ("id", "user_id")):
            count += sum(map(schema.is_unnamed, rows))
            if len(rows) < BATCH:
                break
            last_key = max(row["id"] for row in rows)
        return count

    async def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]:
        """Same as the store's `scan`, of a loaded collection."""
        last_key = ""
        while rows := await self._rows(name, last_key, schema.SCAN_COLUMNS):
            yield schema.anyones_memories_from(rows)
            if len(rows) < BATCH:
                return
            last_key = max(row["id"] for row in rows)

    async def drop(self, name: str) -> None:
        """Delete it with everything in it; there is no way back."""
        await self._write("drop", lambda store: store.beside(name).drop())

    async def _rows(self, name: str, after_key: str, columns: Sequence[str]) -> list[Row]:
        expression = schema.everything_expression(after_key=after_key)
        rows: list[Row] = await self._ask(
            "scan", lambda store: store.beside(name).query(expression, columns, limit=BATCH)
        )
        return rows
