"""Client for external OpenAI-compatible chat models, and the certificate authorities that their servers are held against.

Envoy, which is in front of such servers too, trusts the same authorities.
"""

import ssl
from functools import cache

import certifi


def authorities_file() -> str:
    """The system's file, or the one named by SSL_CERT_FILE; where there is none, certifi's."""
    return ssl.get_default_verify_paths().cafile or certifi.where()


@cache
def tls_context() -> ssl.SSLContext:
    """One for all clients of the process: reading the file takes a processor 30 to 60 ms."""
    return ssl.create_default_context(cafile=authorities_file(), capath=ssl.get_default_verify_paths().capath)
