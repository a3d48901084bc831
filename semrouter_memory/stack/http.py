"""HTTP clients for the servers of this installation, which speak plain HTTP on this machine."""

import ssl
from typing import Any

import httpx

_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def local_client(**options: Any) -> httpx.AsyncClient:
    """A client that uses no proxy and trusts no certificate authority; `options` are those of httpx.

    By default httpx reads the file of the authorities for each client, which takes a processor 30 to 50 ms.
    """
    return httpx.AsyncClient(verify=_NO_AUTHORITIES, trust_env=False, **options)
