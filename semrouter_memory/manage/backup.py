"""A consistent copy of the data directory, taken while the sidecar runs.

Strategy. The turn log is copied before the memories: a turn that is extracted in between then waits in the copy and is
extracted again, which finds its memories stored already; in the other order they would be lost. The copy appears under its
name only when it is complete.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from semrouter_memory.backends import Backends
from semrouter_memory.deletion.service import PartResult, run_parts
from semrouter_memory.errors import InvalidRequestError, Service, UnavailableError

_MODE = 0o700


class StoreFiles(Protocol):
    """The vector store."""

    async def backup(self, directory: Path) -> str:
        """Returns: what the copy does not hold and why; "" when it is complete."""


async def write_backup(
    backends: Backends, store: StoreFiles, directory: Path, *, file_lock: asyncio.Lock
) -> list[PartResult]:
    """Copy turn log, state and memories into a new directory, which can be opened as `memory.data_dir`.

    Args:
        file_lock: held meanwhile; a compaction holds it too.

    Raises:
        InvalidRequestError: the directory exists, or cannot be made.
        UnavailableError: a part could not be copied; then there is no copy at all.
    """
    if not directory.is_absolute() or not directory.name:
        raise InvalidRequestError(
            "must be an absolute path to a new directory: it is the sidecar's, not yours", field="directory"
        )
    partial = directory.with_name(f".{directory.name}.partial")
    copies: dict[str, Callable[[], Awaitable[str | None]]] = {
        "turn_log": lambda: backends.turn_log.backup(partial),
        "state": lambda: backends.state.backup(partial),
        "store": lambda: store.backup(partial),
    }
    async with file_lock:
        _make(directory, partial)
        try:
            results = require_all(await run_parts(copies))
            partial.rename(directory)
        except OSError as error:
            raise InvalidRequestError(f"cannot be written: {error.strerror}", field="directory") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
        return results


def require_all(results: list[PartResult]) -> list[PartResult]:
    """Raises: UnavailableError: a part failed."""
    if failures := [f"{result.part}: {result.error}" for result in results if result.error is not None]:
        raise UnavailableError("; ".join(failures), service=Service.MAINTENANCE)
    return results


def _make(directory: Path, partial: Path) -> None:
    try:
        if directory.exists():
            raise InvalidRequestError(f"{directory} is there already; name a new one", field="directory")
        # Left by a process that was killed.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=_MODE, parents=True)
    except OSError as error:
        raise InvalidRequestError(f"cannot be made: {error.strerror}", field="directory") from None
