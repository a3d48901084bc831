"""A real Milvus server for tests: the one that the package index carries, started here, on free ports.

Used as a pytest plugin. Without the server the tests that need it are skipped, and fail where `CI` is set.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

_EXECUTABLE = Path(sys.executable).with_name("milvus-server")
_PORTS = (
    "root-coord-port",
    "proxy-port",
    "proxy-internal-port",
    "query-coord-port",
    "query-node-port",
    "index-coord-port",
    "index-node-port",
    "data-coord-port",
    "data-node-port",
)
_PORT_RANGE = range(20_000, 32_000)
_READY_SECONDS = 120
_START_MESSAGE = " Process: "
"""The script prints it when the server's own health check has passed."""


class MilvusServer:
    """One server process with its own data; it may be stopped, killed, paused and started again."""

    def __init__(self, directory: Path) -> None:
        ports = _free_ports(len(_PORTS) + 2)
        self._directory = directory
        self._etcd_port, self._etcd_peer_port = ports[-2:]
        self._ports = dict(zip(_PORTS, ports, strict=False))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._ports["proxy-port"]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = [f"--{name}={port}" for name, port in self._ports.items()]
        with (self._directory / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [_EXECUTABLE, "--data", self._directory, f"--etcd-port={self._etcd_port}", *ports],
                env={**os.environ, "ETCD_CONFIG_PATH": str(self._write_etcd_config()), "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=log,
                # The server proper is a child of the script: a group of their own, to be signalled together.
                start_new_session=True,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self._log()
            if _START_MESSAGE in self._log():
                return
            time.sleep(0.2)
        raise TimeoutError(f"Milvus was not ready in {_READY_SECONDS} s\n{self._log()}")

    def pause(self) -> None:
        """It hangs from now on: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def _log(self) -> str:
        return (self._directory / "server.log").read_text(encoding="utf-8", errors="replace")

    def _write_etcd_config(self) -> Path:
        """The embedded etcd takes its peer port from nowhere else; two servers would claim 2380."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._etcd_peer_port))
        path = self._directory / "etcd.yaml"
        path.write_text(
            f"name: default\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n",
            encoding="utf-8",
        )
        return path


def _free_ports(count: int) -> list[int]:
    """Below the range that connections take their own ports from: a server that was killed must get its back."""
    with ExitStack() as stack:
        ports: list[int] = []
        for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
            one = stack.enter_context(socket.socket())
            with suppress(OSError):
                one.bind(("0.0.0.0", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise RuntimeError("no free ports")


@pytest.fixture(scope="session")
def new_milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], MilvusServer]]:
    """Makes a server that is not started yet; whatever is still running is killed at the end."""
    if not _EXECUTABLE.exists():
        reason = f"no Milvus server: {_EXECUTABLE} is missing; pip install -e '.[dev]'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    servers: list[MilvusServer] = []

    def new() -> MilvusServer:
        servers.append(MilvusServer(tmp_path_factory.mktemp("milvus")))
        return servers[-1]

    yield new
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def milvus_server(new_milvus_server: Callable[[], MilvusServer]) -> MilvusServer:
    """A running server that the tests of a session share; each uses collections of its own."""
    server = new_milvus_server()
    server.start()
    return server
