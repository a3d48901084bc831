"""Ports on loopback."""

import socket

from semrouter_memory.errors import ConfigurationError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def checked_port(wanted: int, option: str) -> int:
    """The wanted port, or a free one for 0.

    Raises:
        ConfigurationError: the port is taken; the message names the option that chooses another one.
    """
    if wanted == 0:
        return free_port()
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError as error:
            raise ConfigurationError(
                f"port {wanted} on {LOOPBACK} is not available ({error.strerror}); choose another one with {option}"
            ) from None
    return wanted
