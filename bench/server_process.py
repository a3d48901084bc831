"""What real servers have in common that are started for tests and measuring.

One process, which may be paused, killed and started again.
"""

import itertools
import random
import signal
import subprocess
import time
from pathlib import Path

from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.stack.loopback import is_free

_PORTS = itertools.cycle(random.SystemRandom().sample(range(20_000, 32_000), k=12_000))


def lasting_port() -> int:
    """A free port that no other kind of server draws, for a server that is stopped and started again."""
    return next(port for port in _PORTS if is_free(port))


class ServerProcess:
    """The process of one server; `start` is the server's own. It blocks: in an event loop, call it in a thread.

    Args:
        name: for messages.
        directory: takes its data and its output.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self._name = name
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Returns when it serves."""
        raise NotImplementedError

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
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def _serves(self) -> bool:
        """Whether it answers as it should."""
        raise NotImplementedError

    def _wait_until_ready(self, *, seconds: float, poll_seconds: float) -> None:
        assert self._process is not None, "not started"
        deadline = time.monotonic() + seconds
        while not self._serves():
            status = self._process.poll()
            if status is not None:
                raise UnavailableError(
                    f"{self._name} ended with {status}; see {self.directory}", service=Service.SERVER
                )
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self._name} was not ready in {seconds} s; see {self.directory}", service=Service.SERVER
                )
            time.sleep(poll_seconds)
