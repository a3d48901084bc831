"""Ports on loopback."""

import itertools
import random
import socket
from collections.abc import Mapping

from semrouter_memory.errors import ConfigurationError

LOOPBACK = "127.0.0.1"


# Below those that the kernel gives to outgoing connections (from 32768): one could take the port before its server starts.
# Shuffled, so that processes side by side seldom draw the same.
_DRAWN = itertools.cycle(random.SystemRandom().sample(range(15_000, 20_000), k=5_000))


def free_port() -> int:
    """A port without a listener right now, another one at each call."""
    return next(port for port in _DRAWN if is_free(port))


def chosen_ports(wanted: Mapping[str, int]) -> dict[str, int]:
    """The wanted ports by name (`operator_port`), with a free one for each 0.

    Raises:
        ConfigurationError: a port is in use, wanted twice, or none; the message names what chooses another one.
    """
    for name, port in wanted.items():
        twice = next((other for other in wanted if other != name and port and wanted[other] == port), None)
        if twice is not None:
            raise ConfigurationError(f"port {port} is wanted twice; {_another(name)} or {_another(twice)}")
        try:
            _bind(port)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "ports end at 65535"
            raise ConfigurationError(
                f"port {port} on {LOOPBACK} is not available ({reason}); {_another(name)}"
            ) from None
    return {name: port or free_port() for name, port in wanted.items()}


def following(port: int, wanted: Mapping[str, int | None]) -> dict[str, int]:
    """The numbers that follow `port` for those that are None; after a drawn port (0) they are drawn, too."""
    taken = {port, *wanted.values()}
    following = (number for number in itertools.count(port + 1) if number not in taken)
    return {name: number if number is not None else next(following) if port else 0 for name, number in wanted.items()}


def _another(name: str) -> str:
    return f"choose another one with {name.upper()}=... or --{name.replace('_', '-')}"


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
