"""Milvus Lite: a small server process for one file, started here and stopped with us.

A file belongs to one process. Milvus Lite locks it, but a process that does not get the lock *removes* the holder's lock file, so
that the next process gets in and both write. Hence this module takes a lock of its own first, which nothing removes and
which excludes a second start within one process, too.
"""

import fcntl
import importlib
import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.store import lite_file

NOT_INSTALLED = (
    "Milvus Lite is not installed: pip install 'semrouter-memory[lite]', or set memory.milvus.uri to a server"
)
_LINGER_SECONDS = 3.0
"""Milvus Lite's process notices within about a second that its parent was killed, and ends."""

_POLL_SECONDS = 0.1

_NO_LOGS = "3"
"""Fatal errors only (glog)."""


class LiteServer:
    """The process behind one file. Its methods block (about half a second); they are for a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._lock: int | None = None
        self._running = False
        # A caller that waits for a start may be cancelled; the thread continues, and a stop must come after it.
        self._one_at_a_time = threading.Lock()

    @property
    def path(self) -> Path:
        return self._path

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
                lite_file.reveal(self._path)
            # Its logs go to /tmp, readable by everyone, and nothing ever removes them.
            os.environ.setdefault("GLOG_minloglevel", _NO_LOGS)
            uri = processes.start_and_get_uri(str(self._path))
            if uri is None:
                raise StoreUnavailableError(f"Milvus Lite did not start on {self._path}: {_reason(self._path)}")
            self._running = True
            return str(uri)

    def stop(self) -> None:
        """Stop the process and give the file back."""
        with self._one_at_a_time:
            if self._running:
                self._stop_process(_processes())
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def compact(self) -> None:
        """Take what was deleted out of the file; nothing may write through the process meanwhile, see `lite_file`.

        Raises:
            StoreUnavailableError: the file is not ours at the moment, or cannot be rewritten.
        """
        with self._one_at_a_time:
            self._require_file()
            lite_file.vacuum(self._path)

    def backup(self, directory: Path) -> None:
        """Same as `compact`, but writes a copy into a directory."""
        with self._one_at_a_time:
            self._require_file()
            lite_file.copy(self._path, directory)

    def _require_file(self) -> None:
        if self._lock is None:
            raise StoreUnavailableError("Milvus Lite is not running")

    def _stop_process(self, processes: Any) -> None:
        if self._running:
            processes.release_server(str(self._path))
            self._running = False

    def _prepare(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = _lock(self._path.with_name(f".{self._path.name}.owner"))
                _refuse_foreign_user(self._path)
            # Memories are private; SQLite gives its side files the same mode.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except BlockingIOError:
            raise ConfigurationError(
                f"{self._path} is in use: Milvus Lite belongs to one process. Stop the other one, ask it through its"
                " API, or set memory.milvus.uri to a Milvus server, which several processes can share"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"cannot use {self._path} for Milvus Lite: {error.strerror}") from None


def _reason(path: Path) -> str:
    if lite_file.is_sound(path):
        return "see its message above"
    return "the file is damaged; put a copy in its place, or move it away to begin with an empty one"


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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
        raise ConfigurationError(NOT_INSTALLED) from None
