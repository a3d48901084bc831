"""Care of the files: taking what was deleted out of them, and copying them, while everything runs.

Strategy. The turn log is copied before the memories: a turn that is extracted in between then waits in the copy and is
extracted again, which finds its memories known; the other way round they would be lost. A copy appears under its name only
when it is whole.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, UnavailableError

_MODE = 0o700


class Files(Protocol):
    """A part that keeps files: the turn log, or the state store."""

    async def compact(self) -> None: ...

    async def backup(self, directory: Path) -> None: ...


class StoreFiles(Protocol):
    """The vector store."""

    async def compact(self) -> None: ...

    async def backup(self, directory: Path) -> str:
        """Returns: what the copy does not hold and why; "" when it is whole."""
        ...


class MaintenanceError(UnavailableError):
    """A part could not do its share; the message names it. The others did theirs, and asking again is safe."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one part did.

    Attributes:
        note: what it could not do and why that is in order; else "".
    """

    part: str
    seconds: float
    note: str = ""


class Maintenance:
    """One task at a time; who comes meanwhile waits.

    Args:
        state: None where nothing of it is kept.
    """

    def __init__(self, *, turn_log: Files, state: Files | None, store: StoreFiles) -> None:
        self._files = {"turn_log": turn_log} if state is None else {"turn_log": turn_log, "state": state}
        self._store = store
        self._one_at_a_time = asyncio.Lock()

    async def compact(self) -> list[Share]:
        """Take what was deleted out of all files.

        Raises:
            MaintenanceError: not out of all of them.
        """
        async with self._one_at_a_time:
            return await _shares(
                {**{part: each.compact for part, each in self._files.items()}, "store": self._store.compact}
            )

    async def backup(self, directory: Path) -> list[Share]:
        """Copy everything into a new directory, which can be opened as `memory.data_dir`.

        Raises:
            InvalidRequestError: the directory is there already, or cannot be made.
            MaintenanceError: a part could not be copied; then there is no copy at all.
        """
        if not directory.is_absolute():
            raise InvalidRequestError("must be an absolute path: it is the sidecar's, not yours", field="directory")
        async with self._one_at_a_time:
            partial = directory.with_name(f".{directory.name}.partial")
            _make(directory, partial)
            try:
                shares = await _shares(
                    {
                        **{part: _into(each, partial) for part, each in self._files.items()},
                        "store": lambda: self._store.backup(partial),
                    }
                )
                partial.rename(directory)
            except OSError as error:
                raise InvalidRequestError(f"cannot be written: {error.strerror}", field="directory") from None
            finally:
                await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            return shares


def _into(files: Files, directory: Path) -> Callable[[], Awaitable[None]]:
    return lambda: files.backup(directory)


def _make(directory: Path, partial: Path) -> None:
    try:
        if directory.exists():
            raise InvalidRequestError(f"{directory} is there already; name a new one", field="directory")
        # What a process that was killed has left behind.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=_MODE, parents=True)
    except OSError as error:
        raise InvalidRequestError(f"cannot be made: {error.strerror}", field="directory") from None


async def _shares(work: dict[str, Callable[[], Awaitable[str | None]]]) -> list[Share]:
    shares: list[Share] = []
    failures: list[str] = []
    for part, call in work.items():
        began = time.monotonic()
        try:
            note = await call()
        except MemoryServiceError as error:
            failures.append(f"{part}: {error}")
        else:
            shares.append(Share(part, time.monotonic() - began, note or ""))
    if failures:
        raise MaintenanceError("; ".join(failures))
    return shares
