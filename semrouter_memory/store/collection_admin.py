"""All collections of this service at one place, whatever embedding they were made for: read as a whole, or dropped.

Nothing here reads a vector, so the dimension and the embedding of a collection do not matter.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from semrouter_memory.model import Memory
from semrouter_memory.store import schema
from semrouter_memory.store.connection import PREPARE_SECONDS, MilvusConnection
from semrouter_memory.store.schema import Row

SCAN_BATCH = 500
"""Rows in one answer to a scan: texts of the greatest length stay below 64 MiB."""

Call = Callable[[MilvusConnection], Awaitable[Any]]


class Ask(Protocol):
    """Makes one call of the store."""

    async def __call__(self, operation: str, call: Call, *, seconds: float | None = None) -> Any: ...


async def pages_by_key(read: Callable[[str], Awaitable[list[Row]]], *, limit: int) -> AsyncIterator[list[Row]]:
    """Rows in pages, until one holds fewer than `limit`.

    Args:
        read: reads up to `limit` rows with a greater primary key than this one.
    """
    last_key = ""
    while rows := await read(last_key):
        yield rows
        if len(rows) < limit:
            return
        last_key = max(row["id"] for row in rows)


class CollectionAdmin:
    """Lists, reads and drops collections. Raises `StoreUnavailableError`.

    Args:
        current: the store's own collection.
        ask: makes a call that reads.
        write: makes a call that changes something.
    """

    def __init__(self, current: str, ask: Ask, write: Callable[[str, Call], Awaitable[Any]]) -> None:
        self.current = current
        self._ask = ask
        self._write = write

    async def embeddings(self) -> dict[str, str]:
        """Collections that this version or an older one made: name -> fingerprint of the embedding."""
        found: dict[str, str] = await self._ask("describe", MilvusConnection.embeddings)
        return found

    async def count(self, name: str) -> int:
        """How many rows a collection holds; loads it."""
        collection = await self._loaded(name)
        number: int = await self._ask("count", lambda store: collection(store).count(schema.everything_expression()))
        return number

    async def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]:
        """Every memory of a collection, in batches; loads it."""
        collection = await self._loaded(name)

        async def read(after_key: str) -> list[Row]:
            expression = schema.everything_expression(after_key=after_key)
            rows: list[Row] = await self._ask(
                "scan", lambda store: collection(store).query(expression, schema.SCAN_COLUMNS, limit=SCAN_BATCH)
            )
            return rows

        async for rows in pages_by_key(read, limit=SCAN_BATCH):
            yield schema.anyones_memories_from(row for row in rows if not schema.is_passage(row))

    async def _loaded(self, name: str) -> Callable[[MilvusConnection], MilvusConnection]:
        if name == self.current:
            return lambda store: store
        await self._ask("load", lambda store: store.for_collection(name).load(), seconds=PREPARE_SECONDS)
        return lambda store: store.for_collection(name)

    async def drop(self, name: str) -> None:
        """Delete a collection with everything in it, for good."""
        await self._write("drop", lambda store: store.for_collection(name).drop())
