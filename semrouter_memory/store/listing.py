"""Pages of memories, and the cursors that lead from one to the next. Pure.

Strategy: the stores do not sort, so a page is chosen from the position of every row that is selected. There may be ten thousand:
a position is a tuple, which the interpreter compares by itself.
"""

import base64
import heapq
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.store.schema import NEVER, memory_id_of, read_id, stored_id


class ListingPosition(NamedTuple):
    """A row's position in a listing: greater ones come first."""

    created_at: int
    memory_id: str


def listed(
    rows: Iterable[Mapping[str, Any]], *, limit: int, after: ListingPosition | None, oldest_first: bool
) -> tuple[list[ListingPosition], str]:
    """The positions on a page, and the cursor of the next page: "" at the end, and when the oldest come first.

    Args:
        after: the last position of the page before.
    """
    positions = (ListingPosition(row["created_at"], memory_id_of(row)) for row in rows)
    further = positions if after is None else (each for each in positions if each < after)
    if oldest_first:
        return heapq.nsmallest(max(limit, 0), further), ""
    found = heapq.nlargest(max(limit, 0) + 1, further)
    page = found[: max(limit, 0)]
    return page, encode_cursor(page[-1]) if page and len(found) > limit else ""


def encode_cursor(position: ListingPosition) -> str:
    """An opaque cursor: names the last memory of a page."""
    return base64.urlsafe_b64encode(f"{position.created_at}:{stored_id(position.memory_id)}".encode()).decode()


def decode_cursor(cursor: str) -> ListingPosition:
    """The last position of the previous page.

    Raises:
        InvalidRequestError: not a cursor that a listing gave.
    """
    try:
        created_at, _, memory_id = (
            base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").partition(":")
        )
        position = ListingPosition(int(created_at), read_id(memory_id))
    except ValueError:
        position = None
    if position is None or abs(position.created_at) > NEVER or encode_cursor(position) != cursor:
        raise InvalidRequestError("the cursor is not one that a listing gave", field="cursor")
    return position
