"""Removes a Unix socket that an earlier process left at an address to listen at, and nothing else."""

import os
import socket
import stat
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

_PROBE_SECONDS = 1.0


def clear_stale_socket(path: Path) -> None:
    """Remove the socket of a process that has ended; do nothing when there is no file.

    Raises:
        ConfigurationError: a process answers there, or the file is no socket, or it cannot be read; the message says which.
    """
    try:
        if not path.exists():
            return
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise ConfigurationError("a file that is no socket is in the way")
        if _answers(path):
            raise ConfigurationError("another process answers there")
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(os.strerror(error.errno).lower() if error.errno else str(error)) from None


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            # Its queue of connections is full: it is there.
            return True
    return True
