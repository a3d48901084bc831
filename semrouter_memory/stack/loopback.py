"""Loopback: free ports, and an HTTP client for the servers of this installation, which speak plain HTTP."""

import itertools
import random
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import httpx

from semrouter_memory.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


# Below those that the kernel gives to outgoing connections (from 32768): one could take the port before its server starts.
# Shuffled, so that processes side by side seldom draw the same.
_DRAWN = itertools.cycle(random.SystemRandom().sample(range(15_000, 20_000), k=5_000))


def free_port() -> int:
    """A port without a listener right now, another one at each call."""
    return next(port for port in _DRAWN if is_free(port))


def chosen_ports(first: int, names: Sequence[str], operator: int | None = None) -> dict[str, int]:
    """A port for each name: the first one and those that follow it, free ones for 0.

    Args:
        operator: that of `operator_port`, which then does not follow.

    Raises:
        ConfigurationError: a port is in use, wanted twice, or none.
    """
    if first and first == operator:
        raise ConfigurationError(f"port {first} is wanted twice; choose another one with {_option('operator_port')}")
    following = (port for port in itertools.count(first) if port != operator)
    ports = {name: (next(following) if first else 0) for name in names if operator is None or name != "operator_port"}
    if operator is not None:
        ports["operator_port"] = operator
    for name, port in ports.items():
        try:
            _bind(port)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "ports end at 65535"
            option = _option(name if port == operator else "port")
            raise ConfigurationError(
                f"port {port} on {LOOPBACK} is not available ({reason}); choose another one with {option}"
            ) from None
    return {name: port or free_port() for name, port in ports.items()}


def _option(name: str) -> str:
    return f"{name.upper()}=... or --{name.replace('_', '-')}"


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


def local_client(**options: Any) -> httpx.AsyncClient:
    """A client that uses no proxy and trusts no certificate authority; `options` are those of httpx.

    By default httpx reads the file of the authorities for each client, which takes a processor 30 to 50 ms.
    """
    return httpx.AsyncClient(verify=_NO_AUTHORITIES, trust_env=False, **options)
