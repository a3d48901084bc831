"""Owners' locks (implements the `OwnerLocks` port): within one process, and across the processes of one machine.

Strategy for several processes: the tasks of a process queue for an asyncio lock, and the first of them asks the kernel
for a byte of one file, a byte per owner. The kernel gives it back when a process ends, however it ends. The lock belongs
to the opened file, not to the process (OFD), so closing another descriptor of the file does not lose it. There is no
waiting in line between processes: who finds the byte taken looks again soon, never in a blocking call.
"""

import asyncio
import errno
import fcntl
import os
import random
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from semrouter_memory.errors import ConfigurationError, LockLostError
from semrouter_memory.model import Scope
from semrouter_memory.resilience import Backoff
from semrouter_memory.sessions.columns import pack
from semrouter_memory.sessions.connections import create_private

_BACKOFF = Backoff(first=0.001, longest=0.05)

_OFFSET_BITS = 62
"""A byte's offset must be a positive 64-bit number, and so must the end of its range."""

_FLOCK = struct.Struct("hhqqi0q")
"""C's `struct flock`: type, whence, start, length, process; the latter is 0 for these locks."""


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Tasks that hold the lock or wait for it."""


class SureHold:
    """A lock that cannot be lost while it is held (implements the `OwnerHold` port)."""

    async def confirm(self) -> None:
        pass


class InProcessOwnerLocks:
    """One asyncio lock per owner, made on demand, dropped when unused; first come, first served. Not reentrant."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[SureHold]:
        entry = self._entries.setdefault(scope.owner, _Entry())
        entry.users += 1
        try:
            async with entry.lock:
                yield SureHold()
        finally:
            entry.users -= 1
            if not entry.users:
                del self._entries[scope.owner]


class FileOwnerLocks:
    """One owner's changes happen one after another in all processes that name the same file. Not reentrant.

    Args:
        path: the file; it is made when it is missing, and stays empty.
        patience_seconds: how long to look again while another process keeps an owner's lock.

    Raises:
        ConfigurationError: the file cannot be opened.
    """

    def __init__(
        self, path: Path, *, patience_seconds: float = 60.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            create_private(path)
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigurationError(f"the owners' locks {path} cannot be opened: {error.strerror}") from error
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._own = InProcessOwnerLocks()

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[SureHold]:
        """See the port.

        Raises:
            LockLostError: another process kept the lock for too long, or the file is gone.
        """
        offset = _offset(scope.owner)
        async with self._own.hold(scope) as hold:
            await self._take(offset)
            try:
                yield hold
            finally:
                if self._file >= 0:
                    self._ask(fcntl.F_UNLCK, offset)

    def close(self) -> None:
        """Close the file; the kernel then has every lock back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def _take(self, offset: int) -> None:
        deadline = self._monotonic() + self._patience_seconds
        failures = 0
        while not self._ask(fcntl.F_WRLCK, offset):
            if self._monotonic() >= deadline:
                raise LockLostError("another process keeps the owner's lock")
            await asyncio.sleep(_BACKOFF.delay(failures, random.random()))  # noqa: S311 - no secret
            failures += 1

    def _ask(self, kind: int, offset: int) -> bool:
        """Lock or unlock one byte, without waiting; returns False when another process has it."""
        if self._file < 0:
            raise LockLostError("the owners' locks are closed")
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise LockLostError(f"the owners' locks cannot be asked: {error.strerror}") from error
        return True


def _offset(owner: str) -> int:
    digest = blake2b(pack(owner), digest_size=8, person=b"owner-lock").digest()
    return int.from_bytes(digest, "big") >> (64 - _OFFSET_BITS)
