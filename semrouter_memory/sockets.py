"""Unix sockets that we listen at: the way is cleared of what a process that is gone left behind, and of nothing else."""

import os
import socket
import stat
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

_PROBE_SECONDS = 1.0


def clear_stale_socket(path: Path) -> None:
    """Remove the socket of a process that is gone; where there is nothing, there is nothing to do.

    Raises:
        ConfigurationError: somebody answers there, or it is no socket, or it cannot be looked at; the message says which.
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
