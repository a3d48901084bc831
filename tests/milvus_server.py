"""The real Milvus server for tests.

Used as a pytest plugin. Without the server the tests that need it are skipped, and fail where `CI` is set.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.milvus_server import MilvusServer
from tests.file_order import ON_THE_RUNS_MILVUS
from tests.run_servers import end, of_the_run, one_at_a_time, run_directory

__all__ = ["MilvusServer"]

_ELSEWHERE = re.compile(r"\[(in_memory|indexed|lite)\b")
_sharing: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _expect(item.nodeid for item in items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    _expect(ids)


def _expect(ids: Iterable[str]) -> None:
    _sharing.update(each for each in ids if each.startswith(ON_THE_RUNS_MILVUS) and not _ELSEWHERE.search(each))


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Of each test in the run's process, and of its own ones in each worker."""
    if nodeid in _sharing:
        _sharing.remove(nodeid)
        if not _sharing:
            end("milvus")


@pytest.fixture(scope="session")
def new_milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], MilvusServer]]:
    """Makes a server that is not started yet; whatever is still running is killed at the end."""
    servers: list[MilvusServer] = []

    def new() -> MilvusServer:
        servers.append(_server(tmp_path_factory.mktemp("milvus")))
        return servers[-1]

    yield new
    for server in servers:
        server.discard()


@pytest.fixture(scope="module")
def milvus_server() -> MilvusServer:
    """A running server that all tests of a run share; each uses collections of its own."""
    return of_the_run("milvus", _server)


def _server(directory: Path) -> MilvusServer:
    # What is there already is not unpacked again.
    shutil.copytree(_unpacked() / "bin", directory / "bin", copy_function=os.link)
    return MilvusServer(directory, quick=True)


def _unpacked() -> Path:
    """Where the program is unpacked, once for all servers of the run: it takes seconds of a processor."""
    try:
        import milvus
    except ImportError:
        reason = "no Milvus server: pip install 'semrouter-memory[dev]'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    directory = run_directory() / "milvus-program"
    with one_at_a_time("milvus-program"):
        directory.mkdir(exist_ok=True)
        milvus._initialize_data_files(str(directory))
    return directory
