"""Pages of memories, and the cursors that lead from one to the next. Pure.

Strategy: the stores do not sort, so a page is chosen from the position of every row that is selected. There may be ten thousand:
a position is a tuple, which is made and compared within the interpreter.
"""

import base64
import heapq
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.store.schema import NEVER, read_id, stored_id, stored_memory_id


class ListingPosition(NamedTuple):
    """A row's position in a listing: greater ones come first.

    Attributes:
        created_at: in microseconds.
        stored_id: the memory's id as it is stored.
    """

    created_at: int
    stored_id: str

    @property
    def memory_id(self) -> str:
        return read_id(self.stored_id)


def listed(
    rows: Iterable[Mapping[str, Any]], *, limit: int, after: ListingPosition | None, oldest_first: bool
) -> tuple[list[ListingPosition], str]:
    """The positions on a page, and the cursor of the next page: "" at the end, and when the oldest come first.

    Args:
        after: the last position of the page before.
    """
    positions = (ListingPosition(row["created_at"], stored_memory_id(row)) for row in rows)
    further = positions if after is None else (each for each in positions if each < after)
    if oldest_first:
        return heapq.nsmallest(max(limit, 0), further), ""
    found = heapq.nlargest(max(limit, 0) + 1, further)
    page = found[: max(limit, 0)]
    return page, encode_cursor(page[-1]) if page and len(found) > limit else ""


def encode_cursor(position: ListingPosition) -> str:
    """An opaque cursor: names the last memory of a page."""
    return base64.urlsafe_b64encode(f"{position.created_at}:{position.stored_id}".encode()).decode()


def decode_cursor(cursor: str) -> ListingPosition:
    """The last position of the previous page.

    Raises:
        InvalidRequestError: not a cursor that a listing gave.
    """
    try:
        created_at, _, stored = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").partition(":")
        position = ListingPosition(int(created_at), stored_id(read_id(stored)))
    except ValueError:
        position = None
    if position is None or abs(position.created_at) > NEVER or encode_cursor(position) != cursor:
        raise InvalidRequestError("the cursor is not one that a listing gave", field="cursor")
    return position
