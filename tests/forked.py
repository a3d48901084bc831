"""The program that sidecars of the tests are forked from; `tests.fork_server` starts it and asks it.

It loads the service's modules once and starts no thread. Each request names the words of a command line, its environment,
its directory and three files. The forked process runs `semrouter-memory` with them, in a session of its own.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

MESSAGE_BYTES = 1 << 20
_LONGEST_FILE_NUMBER = 4096
_OF_SERVE = (
    "semrouter_memory.app.sidecar",
    "semrouter_memory.cli.service",
    # What a sidecar loads when it starts its store and its servers:
    "milvus_lite.server_manager",
    "openai.resources.chat.completions",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.auto",
)


class _LoadedAtItsFirstUse(ModuleType):
    """Stands for onnxruntime, which starts threads when it is loaded: they would not survive a fork."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for such
            raise AttributeError(name)
        if sys.modules[self.__name__] is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _load() -> None:
    """Load what `serve` needs, and compile its patterns."""
    sys.modules["onnxruntime"] = _LoadedAtItsFirstUse("onnxruntime")
    gc.disable()
    import_module("numpy")
    threads = _threads()  # numpy's own, which it ends before a fork
    with warnings.catch_warnings():
        # Milvus Lite imports what setuptools deprecates.
        warnings.simplefilter("ignore")
        for name in _OF_SERVE:
            import_module(name)
    import_module("tests.short_polls").shorten()
    import_module("semrouter_memory.recall.categories").prepare()
    gc.freeze()
    gc.enable()
    assert _threads() == threads, "a thread would not survive the fork"


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _fork_when_asked(requests: socket.socket) -> dict[str, Any] | None:
    """Returns in each forked process, with what it is to run, and without in this process when the tests have ended."""
    children: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in selector.select()]
            for ended in children.keys() & ready:
                pid = children.pop(ended)
                selector.unregister(ended)
                os.close(ended)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                requests.send(json.dumps({"pid": pid, "status": status}).encode())
            if requests.fileno() not in ready:
                continue
            message, files, *_ = socket.recv_fds(requests, MESSAGE_BYTES, 3)
            if not message:
                for pid in children.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            if (pid := os.fork()) == 0:
                requests.detach()
                return {**json.loads(message), "files": files}
            for file in files:
                os.close(file)
            children[ended := os.pidfd_open(pid)] = pid
            selector.register(ended, selectors.EVENT_READ)
            requests.send(json.dumps({"pid": pid, "status": None}).encode())


def _become(asked: dict[str, Any]) -> None:
    """Make this process what a program finds that was started with these words."""
    os.setsid()
    for number, file in enumerate(asked["files"]):
        os.dup2(file, number)
    os.closerange(3, _LONGEST_FILE_NUMBER)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["semrouter-memory", *asked["words"]]


if __name__ == "__main__":
    _load()
    asked = _fork_when_asked(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        _become(asked)
        from semrouter_memory.cli import main

        main()
