"""Owners' generations, shared by the processes of one machine (implements the `Generations` port).

Strategy: a file of numbers that every process maps into its memory. Recall asks once per request, and asking is reading
eight bytes: no call, no lock, 2 us with the digest. An owner has the number at a place that its digest gives; two owners
may share one, then each one's writes have the other's memories read anew, once in a while. Adding one happens under the
kernel's lock of the file, which a process that ends gives back. Nothing of this need survive a restart of the machine.
"""

import asyncio
import fcntl
import mmap
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path

from semrouter_memory.errors import ConfigurationError, GenerationsError
from semrouter_memory.model import Scope
from semrouter_memory.sessions.columns import pack
from semrouter_memory.sessions.connections import create_private

_PLACES = 65_536
_NUMBER_BYTES = 8
_SIZE = _PLACES * _NUMBER_BYTES
_PAUSE_SECONDS = 0.001


class FileGenerations:
    """The numbers in one file. They begin at 0 and are never taken back.

    Args:
        path: the file; it is made when it is missing.
        patience_seconds: how long to try again while another process adds one.

    Raises:
        ConfigurationError: the file cannot be used.
    """

    def __init__(
        self, path: Path, *, patience_seconds: float = 1.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            create_private(path)
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigurationError(f"the owners' generations {path} cannot be opened: {error.strerror}") from error
        try:
            # All of it at once: mapped memory of a file for which the disk has no room ends the process.
            os.posix_fallocate(self._file, 0, _SIZE)
            self._memory = mmap.mmap(self._file, _SIZE)
        except (OSError, ValueError) as error:
            os.close(self._file)
            raise ConfigurationError(f"the owners' generations {path} cannot be mapped: {error}") from error
        self._numbers = memoryview(self._memory).cast("Q")
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._closed = False

    async def current(self, scope: Scope) -> int:
        self._require_open()
        return self._numbers[_place(scope)]

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        self._require_open()
        async with self._locked():
            place = _place(scope)
            self._numbers[place] += 1
            after = self._numbers[place]
        return after - 1, after

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._numbers.release()
            self._memory.close()
            os.close(self._file)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Nothing inside may wait: the tasks of a process have the lock in common."""
        deadline = self._monotonic() + self._patience_seconds
        while not self._lock():
            if self._monotonic() >= deadline:
                raise GenerationsError("another process keeps the owners' generations")
            await asyncio.sleep(_PAUSE_SECONDS)
            self._require_open()
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise GenerationsError(f"the owners' generations cannot be locked: {error.strerror}") from error
        return True

    def _require_open(self) -> None:
        if self._closed:
            raise GenerationsError("the owners' generations are closed")


def _place(scope: Scope) -> int:
    digest = blake2b(pack(scope.user_id), digest_size=8, person=b"generation").digest()
    return int.from_bytes(digest, "big") % _PLACES
