"""Servers that all workers of a test run share: the first worker that needs one starts it, the run's process ends it at the
latest.

Used as a pytest plugin. Without workers, the one process does both.
"""

import copy
import fcntl
import itertools
import os
import pickle
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from bench.server_process import ServerProcess
from semrouter_memory.stack import loopback

_VARIABLE = "SEMROUTER_MEMORY_TEST_SERVERS"
"""The environment leads the workers to the directory that the run's process has made."""
S = TypeVar("S", bound=ServerProcess)


def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        _draw_ports_of_its_own(int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")))
    else:
        os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="semrouter-memory-servers-")


def _draw_ports_of_its_own(worker: int) -> None:
    """Between drawing a port and listening on it, seconds pass, in which another worker could draw the same."""
    share = range(15_000 + 600 * (worker % 8), 15_600 + 600 * (worker % 8))
    loopback._DRAWN = itertools.cycle(random.sample(share, len(share)))


def pytest_unconfigure(config: pytest.Config) -> None:
    """All workers have ended."""
    if _is_worker(config):
        return
    for file in run_directory().glob("*.server"):
        end(file.stem)
    shutil.rmtree(run_directory(), ignore_errors=True)


def end(name: str) -> None:
    """End the run's server of that name, if there is one; who needs it after all starts another."""
    file = run_directory() / f"{name}.server"
    with one_at_a_time(name):
        if file.exists():
            with suppress(ProcessLookupError):
                os.kill(int(file.with_suffix(".pid").read_text(encoding="ascii")), signal.SIGKILL)
            file.unlink()
            shutil.rmtree(run_directory() / name, ignore_errors=True)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def run_directory() -> Path:
    """Where the servers of the run are."""
    return Path(os.environ[_VARIABLE])


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """One of the workers at a time."""
    with (run_directory() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def of_the_run(name: str, new: Callable[[Path], S]) -> S:
    """The run's server of that name, running; no test may pause it or kill it.

    Args:
        new: makes one with its data in that directory.
    """
    file = run_directory() / f"{name}.server"
    with one_at_a_time(name):
        if not file.exists():
            directory = run_directory() / name
            directory.mkdir()
            server = new(directory)
            server.start()
            (file.with_suffix(".pid")).write_text(str(server.pid), encoding="ascii")
            file.write_bytes(pickle.dumps(_without_process(server)))
    found: S = pickle.loads(file.read_bytes())
    return found


def _without_process(server: S) -> S:
    """The same server, whose process is the run's from now on."""
    assert server._process is not None
    server._process.returncode = 0  # or it would be missed when this object goes
    alone = copy.copy(server)
    alone._process = None
    return alone
