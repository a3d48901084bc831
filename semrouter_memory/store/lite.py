"""Milvus Lite: a small server process for one file, started here and stopped with us; and the watch on the system's clock.

A file belongs to one process. Milvus Lite locks it, but a process that does not get the lock *removes* the holder's lock file, so
that the next process gets in and both write. Hence this module takes a lock of its own first, which nothing removes and
which excludes a second start within one process, too.

Milvus Lite stamps each row with the system's time, and a search, a query or a deletion sees the rows whose stamp is not
later than its own time (tried with 2.5.1: nothing that a client sends takes part in it). After a step back, what was
written before it is invisible and cannot be deleted until the clock has caught up. So every call is made between two looks at
the clock. Before it, the clock must stand after the last write. After it, as much time must have passed by the clock as by the
monotonic clock, or the step came during the call and its answer is worth nothing. A connection whose calls cannot be trusted is
lost: the next one makes Milvus Lite's file readable again (`lite_file.reveal`).
"""

import asyncio
import fcntl
import importlib
import os
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from semrouter_memory.databases.sqlite import lock_file
from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.store import lite_file
from semrouter_memory.store.location import LITE_MISSING

_LINGER_SECONDS = 3.0
"""Milvus Lite's process notices within about a second that its parent was killed, and ends."""

_POLL_SECONDS = 0.1

_NO_LOGS = "3"
"""Fatal errors only (glog)."""

_TOLERANCE_NS = 1_000_000
"""Milvus Lite counts milliseconds."""

_SLEW = 8
"""A clock that is being corrected without a step may lose a part in so many."""

_LONGEST_WAIT_NS = 20_000_000
"""A clock that is so little behind is waited for; recall's deadline allows it."""


_environment = threading.Lock()
"""Held while this process's environment is that of the one it starts: several stores may be opened at once."""


class LiteServer:
    """The process behind one file. Its methods block (about half a second); they are for a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._home: TemporaryDirectory[str] | None = None
        self._lock: int | None = None
        self._running = False
        # A caller that waits for a start may be cancelled; the thread continues, and a stop must come after it.
        self._one_at_a_time = threading.Lock()

    def start(self, *, reveal: bool = False) -> str:
        """Start or restart the process; returns its address for pymilvus.

        Args:
            reveal: the file holds rows of a later clock, which are made visible first.

        Raises:
            ConfigurationError: Milvus Lite is not installed, or the file is another process's, or the directory
                cannot be written.
            StoreUnavailableError: the process does not come up.
        """
        with self._one_at_a_time:
            processes = _processes()
            self._prepare()
            self._stop_process(processes)
            if reveal:
                lite_file.reveal(self.path)
            # Its logs go to /tmp, readable by everyone, and nothing ever removes them.
            os.environ.setdefault("GLOG_minloglevel", _NO_LOGS)
            with self._as_home():
                uri = processes.start_and_get_uri(str(self.path))
            if uri is None:
                raise StoreUnavailableError(f"Milvus Lite did not start on {self.path}: {_reason(self.path)}")
            self._running = True
            return str(uri)

    @contextmanager
    def _as_home(self) -> Iterator[None]:
        """Start the process with a home directory of its own.

        Milvus Lite makes `~/.cache/milvus` with its first collection and removes it when it ends. Of two processes of one user that
        do so at once, the second finds that it "already exists", and fails ("Mmap manager has not been init").
        """
        assert self._home is not None, "made before the process is"
        with _environment:
            before = os.environ.get("HOME")
            os.environ["HOME"] = self._home.name
            try:
                yield
            finally:
                if before is None:
                    del os.environ["HOME"]
                else:
                    os.environ["HOME"] = before

    def stop(self) -> None:
        """Stop the process and give the file back."""
        with self._one_at_a_time:
            if self._running:
                self._stop_process(_processes())
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
            if self._home is not None:
                self._home.cleanup()
                self._home = None

    def index_keys(self) -> None:
        """Make writes fast; nothing may write through the process meanwhile, see `lite_file`."""
        with self._one_at_a_time:
            lite_file.index_keys(self.path)

    def compact(self) -> None:
        """Take what was deleted out of the file; nothing may write through the process meanwhile, see `lite_file`.

        Raises:
            StoreUnavailableError: the file is not ours at the moment, or cannot be rewritten.
        """
        with self._one_at_a_time:
            self._require_file()
            lite_file.vacuum(self.path)

    def backup(self, directory: Path) -> None:
        """Same as `compact`, but writes a copy into a directory."""
        with self._one_at_a_time:
            self._require_file()
            lite_file.copy(self.path, directory)

    def _require_file(self) -> None:
        if self._lock is None:
            raise StoreUnavailableError("Milvus Lite is not running")

    def _stop_process(self, processes: Any) -> None:
        if self._running:
            processes.release_server(str(self.path))
            self._running = False

    def _prepare(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = lock_file(self.path.with_name(f".{self.path.name}.owner"))
                _refuse_foreign_user(self.path)
            self._home = self._home or TemporaryDirectory(prefix="semrouter-memory-", ignore_cleanup_errors=True)
            # Memories are private; SQLite gives its side files the same mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except BlockingIOError:
            raise ConfigurationError(
                f"{self.path} is in use: Milvus Lite belongs to one process. Stop the other one, ask it through its"
                " API, or set memory.milvus.uri to a Milvus server, which several processes can share"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"cannot use {self.path} for Milvus Lite: {error.strerror}") from None


def _reason(path: Path) -> str:
    if lite_file.is_sound(path):
        return "see its message above"
    return "the file is damaged; put a copy in its place, or move it away to begin with an empty one"


def _refuse_foreign_user(path: Path) -> None:
    """Look for a process that opened the file by other means than this module.

    Only safe under our own lock: closing a file drops all POSIX locks that this process has on it.
    """
    lite_lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + _LINGER_SECONDS
    while lite_lock.exists():
        with lite_lock.open("a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
            else:
                return
        time.sleep(_POLL_SECONDS)


def _processes() -> Any:
    try:
        with warnings.catch_warnings():
            # Milvus Lite asks setuptools for its own version, which setuptools deplores.
            warnings.simplefilter("ignore")
            return importlib.import_module("milvus_lite.server_manager").server_manager_instance
    except ImportError:
        raise ConfigurationError(LITE_MISSING) from None


# -- the clock ---------------------------------------------------------------------------------------------------------


class LiteClock:
    """Watches the clock while one process of Milvus Lite runs; made when that process sees all of its rows."""

    def __init__(
        self, *, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last_write = wall()

    @asynccontextmanager
    async def steady(self, operation: str, *, writes: bool) -> AsyncIterator[None]:
        """Around one call.

        Raises:
            StoreUnavailableError: the connection is lost: the clock stands before the last write, or was set back during the call.
        """
        await self._reach_last_write(operation)
        wall, monotonic = self._wall(), self._monotonic()
        stepped = False
        try:
            yield
        finally:
            passed, now = self._monotonic() - monotonic, self._wall()
            stepped = now - wall < passed - passed // _SLEW - _TOLERANCE_NS
            if writes:
                # The latest that Milvus Lite can have seen, failed calls included.
                self._last_write = max(self._last_write, wall + passed if stepped else now)
        if stepped:
            raise _clock_set_back(operation)

    async def _reach_last_write(self, operation: str) -> None:
        behind = self._last_write - self._wall()
        if behind > _LONGEST_WAIT_NS:
            raise _clock_set_back(operation)
        if behind > 0:
            await asyncio.sleep(behind / 1e9)
            if self._wall() < self._last_write - _TOLERANCE_NS:
                raise _clock_set_back(operation)


def _clock_set_back(operation: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"{operation}: the system's clock was set back", connection_lost=True)
