"""Ports on loopback."""

import itertools
import random
import socket
from collections.abc import Sequence

from semrouter_memory.errors import ConfigurationError

LOOPBACK = "127.0.0.1"


# Below those that the kernel gives to outgoing connections (from 32768): one could take the port before its server starts.
# Shuffled, so that processes side by side seldom draw the same.
_DRAWN = itertools.cycle(random.SystemRandom().sample(range(15_000, 20_000), k=5_000))


def free_port() -> int:
    """A port without a listener right now, another one at each call."""
    return next(port for port in _DRAWN if is_free(port))


def chosen_ports(first: int, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: the first one and those that follow it, free ones for 0.

    Raises:
        ConfigurationError: a port is in use, or none.
    """
    if not first:
        return {name: free_port() for name in names}
    for port in range(first, first + len(names)):
        try:
            _bind(port)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "ports end at 65535"
            raise ConfigurationError(
                f"port {port} on {LOOPBACK} is not available ({reason}); choose another one with PORT=... or --port"
            ) from None
    return dict(zip(names, range(first, first + len(names)), strict=True))


def is_free(port: int) -> bool:
    try:
        _bind(port, "0.0.0.0")  # noqa: S104 - some servers bind so
    except OSError:
        return False
    return True


def _bind(port: int, address: str = LOOPBACK) -> None:
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))
