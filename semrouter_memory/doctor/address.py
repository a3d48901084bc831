"""Addresses in the sidecar's settings and in Envoy's clusters, and whether they mean the same socket. Pure."""

import ipaddress
import posixpath
from dataclasses import dataclass

from semrouter_memory.doctor.node import Node
from semrouter_memory.sockets import is_local, unix_path

_ANY = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Hosts that stand for all of a machine's addresses, each with one that can be connected to."""


@dataclass(frozen=True, slots=True)
class Address:
    """A socket's path, or host and port."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_any(self) -> bool:
        return not self.path and self.host in _ANY

    @property
    def connectable(self) -> "Address":
        """The address to connect to."""
        return Address(host=_ANY[self.host], port=self.port) if self.is_any else self

    @property
    def is_literal(self) -> bool:
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def of_setting(listen: str) -> Address | None:
    """The address of a `listen` setting; None when it is no address."""
    if path := unix_path(listen):
        return Address(path=_normal(str(path)))
    host, _, port = listen.rpartition(":")
    return Address(host=host.strip("[]"), port=int(port)) if port.isdecimal() else None


def of_endpoint(address: Node) -> Address | None:
    """The address of a cluster's endpoint; None when nothing can be connected to."""
    if pipe := address.get("pipe"):
        return Address(path=_normal(pipe.get("path").text))
    socket = address.get("socket_address")
    port = socket.get("port_value").number
    return Address(host=socket.get("address").text, port=port) if port else None


def reaches(endpoint: Address, listen: Address) -> bool:
    """Whether a connection to the endpoint arrives at the listener, as far as names tell: a name may be this machine's."""
    if endpoint.path or listen.path:
        return bool(endpoint.path and listen.path) and _same_path(endpoint.path, listen.path)
    if endpoint.port != listen.port and listen.port:
        return False
    if endpoint.host == listen.host or listen.is_any:
        return True
    local = {is_local(str(endpoint)), is_local(str(listen))}
    if True in local:
        return False not in local
    return not (listen.is_literal and endpoint.is_literal)


def _same_path(endpoint: str, listen: str) -> bool:
    """A relative path depends on where the sidecar is started."""
    return endpoint == listen or (not listen.startswith("/") and endpoint.endswith(f"/{listen}"))


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path) if path else ""
