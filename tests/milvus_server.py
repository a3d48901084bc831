"""The real Milvus server for tests.

Used as a pytest plugin. Without the server the tests that need it are skipped, and fail where `CI` is set.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from semrouter_memory.stack.milvus_server import MilvusServer

__all__ = ["MilvusServer"]


@pytest.fixture(scope="session")
def new_milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], MilvusServer]]:
    """Makes a server that is not started yet; whatever is still running is killed at the end."""
    _require_package()
    servers: list[MilvusServer] = []

    def new() -> MilvusServer:
        servers.append(MilvusServer(tmp_path_factory.mktemp("milvus")))
        return servers[-1]

    yield new
    for server in servers:
        server.discard()


@pytest.fixture(scope="session")
def milvus_server(new_milvus_server: Callable[[], MilvusServer]) -> MilvusServer:
    """A running server that the tests of a session share; each uses collections of its own."""
    server = new_milvus_server()
    server.start()
    return server


def _require_package() -> None:
    try:
        import milvus  # noqa: F401 - the server itself
    except ImportError:
        reason = "no Milvus server: pip install 'semrouter-memory[dev]'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
