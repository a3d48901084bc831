"""A real Milvus server for tests: the one that the package index carries, started here, on free ports.

Used as a pytest plugin. Without the server the tests that need it are skipped, and fail where `CI` is set.
The package's own script is not used: at a restart it moves to the next port when the old connections still linger.
"""

import os
import random
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

_PORTS = (
    "etcd_port",
    "root_coord_port",
    "proxy_port",
    "proxy_internal_port",
    "query_coord_port",
    "query_node_port",
    "index_coord_port",
    "index_node_port",
    "data_coord_port",
    "data_node_port",
    # The last two are not in Milvus's own configuration.
    "etcd_peer_port",
    "health_port",
)
_PORT_RANGE = range(20_000, 32_000)
_READY_SECONDS = 120
_POLL_SECONDS = 0.2


class MilvusServer(ServerProcess):
    """One server process with its own data; it may be paused, killed and started again."""

    def __init__(self, directory: Path) -> None:
        super().__init__("Milvus", directory)
        self._ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._unpack()

    @property
    def port(self) -> int:
        return self._ports["proxy_port"]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it serves, after about 10 s; collections it has had before take it longer."""
        with (self.directory / "output.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.directory / "bin" / "milvus", "run", "standalone"],
                cwd=self.directory,
                env={
                    **os.environ,
                    "DEPLOY_MODE": "STANDALONE",
                    "ETCD_CONFIG_PATH": str(self.directory / "etcd.yaml"),
                    "LD_LIBRARY_PATH": str(self.directory / "bin"),
                    "METRICS_PORT": str(self._ports["health_port"]),
                    "MILVUS_RUN_DIR": str(self.directory / "run"),
                },
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready(seconds=_READY_SECONDS, poll_seconds=_POLL_SECONDS)

    def discard(self) -> None:
        """End it and give back half a gigabyte; its logs stay."""
        self.kill()
        for name in ("bin", "data"):
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def _serves(self) -> bool:
        url = f"http://127.0.0.1:{self._ports['health_port']}/healthz"
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5) as answer:
            return b"OK" in answer.read()
        return False

    def _unpack(self) -> None:
        import milvus

        own = {name: port for name, port in self._ports.items() if name in _PORTS[:-2]}
        milvus.MilvusServerConfig(data_dir=str(self.directory), **own).resolve()
        milvus._initialize_data_files(str(self.directory))
        # The embedded etcd takes its ports from nowhere else; two servers would both claim 2379 and 2380.
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd_port", "etcd_peer_port"))
        (self.directory / "etcd.yaml").write_text(
            f"name: default\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n",
            encoding="utf-8",
        )


def _free_ports(count: int) -> list[int]:
    """Below the range that connections take their own ports from: a server that was killed must get its back."""
    ports: list[int] = []
    with ExitStack() as stack:
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
