"""One owner's memories, all of them."""

from datetime import datetime

from semrouter_memory.model import Memory, Reach, Scope
from semrouter_memory.ports import MemoryReader

_PAGE = 1_000


async def listed(reader: MemoryReader, scope: Scope, *, now: datetime | None) -> list[Memory]:
    """Every active memory of the owner, newest first; with `now` None history and expired ones too.

    Raises:
        StoreUnavailableError: the store is away.
    """
    found: list[Memory] = []
    cursor = ""
    while True:
        page = await reader.page(scope, limit=_PAGE, cursor=cursor, reach=Reach.ALL, now=now)
        found.extend(page.memories)
        if not (cursor := page.cursor):
            return found
