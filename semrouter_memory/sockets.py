"""Addresses to listen at: which of them only this machine reaches, and what an earlier process left there."""

import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

_PROBE_SECONDS = 1.0
_UNIX = "unix:"
_SOCKET_MODE = 0o660


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


def unix_path(listen: str) -> Path | None:
    """The path of unix:path; None for a host and port."""
    return Path(listen.removeprefix(_UNIX)) if listen.startswith(_UNIX) else None


def is_local(listen: str) -> bool:
    """Whether only this machine can connect to that address."""
    if unix_path(listen) is not None:
        return True
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening_socket(listen: str) -> tuple[socket.socket, Path | None]:
    """A bound socket that does not listen yet.

    Args:
        listen: host:port (port 0: any free one) or unix:path.

    Returns:
        The socket, and the path that is to be removed when it is closed; None for a port.

    Raises:
        ConfigurationError: the address cannot be bound; the message says why.
    """
    path = unix_path(listen)
    return (_bind_unix(path) if path else _bind_tcp(listen)), path


@contextmanager
def address_of(setting: str) -> Iterator[None]:
    """What is refused within names the setting that has the address, and the remedy.

    Raises:
        ConfigurationError: same as what it is given.
    """
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{setting}: {error}; choose another one") from None


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
        if accepts(path):
            raise ConfigurationError("another process answers there")
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(os.strerror(error.errno).lower() if error.errno else str(error)) from None


def accepts(path: Path) -> bool:
    """Whether a process accepts connections at that Unix socket."""
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


def _bind_tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"{listen!r} is not an address to listen at: host:port or unix:path")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By name: asyncio sends without delay only on sockets that say so.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, int(port)))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {listen}: {_why(error)}") from None
    return listening


def _bind_unix(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_stale_socket(path)
        listening.bind(str(path))
        # Nobody can connect before listen(), so the socket is never open to more than it should be.
        path.chmod(_SOCKET_MODE)
    except (OSError, ConfigurationError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {_UNIX}{path}: {_why(error)}") from None
    return listening


def _why(error: Exception) -> str:
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
