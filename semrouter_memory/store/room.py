"""Whether Milvus Lite's file has room to grow.

Strategy: Milvus Lite confirms a write that the disk refused, keeps the rows in its own memory and has lost them at its
next start (tried with 2.5.1). So it is only asked to write while there is plenty of room; and when the room ended while it
wrote, its process is to be started anew, which makes it read what is really in the file.
"""

import os
from pathlib import Path

from semrouter_memory.errors import StoreUnavailableError

_SPARE_BYTES = 1 << 20
"""For SQLite's journal and its pages, beside the rows."""

_ROW_BYTES = 16 << 10
"""A row with its vector and the words of its text; more than most take."""

_LEFT_BYTES = 128 << 10
"""With less than this left after a write, it may not have fitted."""


def require_room(path: Path, *, rows: int = 0) -> None:
    """Before so many rows are written, or (0) after that.

    Raises:
        StoreUnavailableError: they may not fit, or may not have fitted (`disk_full`); or the file is gone.
    """
    wanted = _SPARE_BYTES + rows * _ROW_BYTES if rows else _LEFT_BYTES
    try:
        disk = os.statvfs(path)
    except OSError as error:
        raise StoreUnavailableError(f"upsert: {error.strerror}") from None
    if disk.f_bavail * disk.f_frsize < wanted:
        raise StoreUnavailableError("upsert: the disk is full", disk_full=True)
