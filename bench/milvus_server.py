"""A real Milvus server on this machine: the one that the package index carries, on free ports.

The package's own script is not used: at a restart it moves to the next port when the old connections still linger.
"""

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bench.server_process import ServerProcess, lasting_port
from semrouter_memory.errors import ConfigurationError

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
_LOG_LEVEL = ("level: info # Only", "level: warn # Only")
"""Of the server and of its etcd; lines of the level `info` take it a seventh of its time."""
_QUICK = (
    # What is read with the strongest consistency waits for the next tick.
    ("timeTickInterval: 200 # ms", "timeTickInterval: 50 # ms"),
    # A server that follows one that was killed waits until the other's lease is over.
    ("    ttl: 30 # ", "    ttl: 10 # "),
    # Each step of loading a collection waits for one of these.
    ("\nqueryCoord:\n", "\nqueryCoord:\n  checkChannelInterval: 100\n  checkSegmentInterval: 100\n"),
    ("distPullInterval: 500", "distPullInterval: 100"),
    # Each tick goes through all of them.
    ("dmlChannelNum: 16", "dmlChannelNum: 2"),
)
"""For tests, which would mostly wait for the server: changes to its configuration."""
_READY_SECONDS = 120
_POLL_SECONDS = 0.2


class MilvusServer(ServerProcess):
    """One server process with its own data; it may be paused, killed and started again.

    Args:
        directory: takes its program, its data and its output.
        quick: it waits for its own parts for shorter times than it does by itself.

    Raises:
        ConfigurationError: the server's package is not installed.
    """

    def __init__(self, directory: Path, *, quick: bool = False) -> None:
        # Its program runs in this directory, where a relative path would lead elsewhere.
        super().__init__("Milvus", directory.absolute())
        self._ports = {name: lasting_port() for name in _PORTS}
        self._unpack((_LOG_LEVEL, *(_QUICK if quick else ())))

    @property
    def port(self) -> int:
        return self._ports["proxy_port"]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it serves, after about 10 s; collections it has had before take it longer.

        Raises:
            UnavailableError: it ended, or was not ready in time.
        """
        with (self.directory / "output.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program that was unpacked here
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
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(url, timeout=5) as answer,
        ):
            return b"OK" in answer.read()
        return False

    def _unpack(self, changes: Iterable[tuple[str, str]]) -> None:
        try:
            import milvus  # noqa: PLC0415 - only who starts a server needs the package
        except ImportError:
            raise ConfigurationError("no Milvus server: pip install 'semrouter-memory[dev]'") from None

        own = {name: port for name, port in self._ports.items() if name in _PORTS[:-2]}
        milvus.MilvusServerConfig(data_dir=str(self.directory), **own).resolve()
        configuration = self.directory / "configs" / "milvus.yaml"
        text = configuration.read_text(encoding="utf-8")
        for its_own, ours in changes:
            assert its_own in text, its_own
            text = text.replace(its_own, ours)
        configuration.write_text(text, encoding="utf-8")
        milvus._initialize_data_files(str(self.directory))  # noqa: SLF001 - what its own script does
        # The embedded etcd takes its ports from nowhere else; two servers would both claim 2379 and 2380.
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd_port", "etcd_peer_port"))
        (self.directory / "etcd.yaml").write_text(
            f"name: default\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n",
            encoding="utf-8",
        )
