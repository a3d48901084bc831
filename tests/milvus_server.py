"""The real Milvus server for tests.

Used as a pytest plugin. Without the server the tests that need it are skipped, and fail where `CI` is set.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.milvus_server import MilvusServer

__all__ = ["MilvusServer"]


@pytest.fixture(scope="session")
def new_milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], MilvusServer]]:
    """Makes a server that is not started yet; whatever is still running is killed at the end."""
    program = _unpacked(tmp_path_factory.getbasetemp())
    servers: list[MilvusServer] = []

    def new() -> MilvusServer:
        directory = tmp_path_factory.mktemp("milvus")
        # What is there already is not unpacked again.
        shutil.copytree(program / "bin", directory / "bin", copy_function=os.link)
        servers.append(MilvusServer(directory))
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


def _unpacked(temporary: Path) -> Path:
    """Where the program is unpacked, once for all servers and all of xdist's workers: it takes seconds of a processor."""
    try:
        import milvus
    except ImportError:
        reason = "no Milvus server: pip install 'semrouter-memory[dev]'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    directory = (temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary) / "milvus-program"
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        milvus._initialize_data_files(str(directory))
    return directory
