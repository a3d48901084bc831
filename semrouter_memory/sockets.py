"""Addresses to listen at: which of them only this machine reaches, and what an earlier process left there."""

import ipaddress
import os
import socket
import stat
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

_PROBE_SECONDS = 1.0


def require_local_or_secret(setting: str, listen: str, secret: str | None, *, header: str) -> None:
    """Whoever reaches one of our ports can claim any identity, so beyond this machine a secret is needed.

    Args:
        setting: the address's name in the configuration.
        header: where Envoy sends the secret.

    Raises:
        ConfigurationError: the address is not a Unix socket or loopback, and there is no shared secret.
    """
    if secret is None and not is_local(listen):
        raise ConfigurationError(
            f"{setting} is {listen}, which others can reach and claim any user's identity: listen on a Unix socket or"
            " 127.0.0.1, or set SEMROUTER_MEMORY__SERVER__SHARED_SECRET (or server.shared_secret_file) and send it from"
            f" Envoy as {header}"
        )


def is_local(listen: str) -> bool:
    """Whether only this machine can connect to that address."""
    if listen.startswith("unix:"):
        return True
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
