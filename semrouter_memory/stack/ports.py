"""Ports on loopback."""

import itertools
import random
import socket

from semrouter_memory.errors import ConfigurationError

LOOPBACK = "127.0.0.1"

# Not those that the kernel gives to outgoing connections (from 32768): one of them could take the port before its
# server starts. Shuffled, so that installations side by side seldom draw the same; each is drawn once.
_DRAWN = itertools.cycle(random.SystemRandom().sample(range(15_000, 32_768), k=17_768))


def free_port() -> int:
    """A port that nobody listens on right now."""
    return next(port for port in _DRAWN if _is_free(port))


def checked_port(wanted: int, option: str) -> int:
    """The wanted port, or a free one for 0.

    Raises:
        ConfigurationError: the port is taken; the message names the option that chooses another one.
    """
    if wanted == 0:
        return free_port()
    try:
        _bind(wanted)
    except OSError as error:
        raise ConfigurationError(
            f"port {wanted} on {LOOPBACK} is not available ({error.strerror}); choose another one with {option}"
        ) from None
    return wanted


def _is_free(port: int) -> bool:
    try:
        _bind(port)
    except OSError:
        return False
    return True


def _bind(port: int) -> None:
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))
