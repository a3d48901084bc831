"""A real Redis server on this machine, on a free port, with its own directory and an append-only file."""

import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from bench.server_process import ServerProcess, lasting_port

MISSING = "no redis-server: make redis, or install Debian's package of that name"
_UNPACKED = Path(__file__).parents[1] / ".cache" / "redis" / "redis-server"
_READY_SECONDS = 30
_POLL_SECONDS = 0.01


def find_redis() -> str | None:
    """The program: the one on the PATH, else the one that `make redis` unpacked."""
    return shutil.which("redis-server") or (str(_UNPACKED) if _UNPACKED.exists() else None)


class RedisServer(ServerProcess):
    """One server process with its own data; it may be paused, killed and started again."""

    def __init__(self, program: str, directory: Path) -> None:
        super().__init__("Redis", directory)
        self._program = program
        self._port = lasting_port()
        self.options: dict[str, str] = {}
        """Further settings of it, which win."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Returns when it serves."""
        options = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "appendfsync": "everysec",
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
            "maxmemory-policy": "noeviction",
            **self.options,
        }
        arguments = [item for name, value in options.items() for item in (f"--{name}", value)]
        with (self.directory / "output.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program that was found
                [self._program, *arguments], stdout=log, stderr=log
            )
        self._wait_until_ready(seconds=_READY_SECONDS, poll_seconds=_POLL_SECONDS)

    def restart(self) -> None:
        self.kill()
        self.start()

    def _serves(self) -> bool:
        """Whether it serves; while it loads its file it answers with an error."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False
