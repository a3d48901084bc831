"""`semrouter-memory run` as a new user meets it: what it prints works as it stands, and what it kept is there again."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.stack.loopback import chosen_ports, free_port

_WITHIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Run:
    """A started command; its output goes into a file."""

    process: subprocess.Popen[bytes]
    port: int
    directory: Path
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def printed(self) -> dict[str, str]:
        """The command under each title."""
        blocks = re.findall(r"^# (.*)\n((?:.+\n)+)", self.output, re.MULTILINE)
        return {title.split(",")[0].split(";")[0]: command for title, command in blocks}

    @property
    def children(self) -> list[int]:
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def until(self, text: str) -> None:
        eventually(lambda: text in self.output, self.log)

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(_WITHIN_SECONDS)


def eventually(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _WITHIN_SECONDS
    while not holds():
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.1)


@contextmanager
def running(directory: Path, model: Path, port: int, *arguments: str) -> Iterator[Run]:
    log = directory.with_name(f"{directory.name}-{time.monotonic_ns()}.log")
    command = [sys.executable, "-m", "semrouter_memory", "run", "--model", str(model), "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "SEMROUTER_"))}
    with log.open("wb") as output:
        process = subprocess.Popen(  # the ports beside Envoy's are those of the default
            [*command, "--directory", str(directory), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory.parent,
        )
    try:
        yield Run(process, port, directory, log)
    finally:
        process.terminate()
        process.wait(_WITHIN_SECONDS)


def bash(command: str, cwd: Path) -> str:
    """What a pasted command prints."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def six_ports() -> int:
    """A port that is free together with the five that follow."""
    while True:
        first = free_port()
        with suppress(ConfigurationError):
            chosen_ports(first, "abcdef")
            return first


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_printed_works_as_it_stands_and_is_known_after_the_next_start(
    tmp_path: Path, model_directory: Path
) -> None:
    directory, port = tmp_path / "run it", six_ports()
    with running(directory, model_directory, port) as run:
        run.until("/v1/memory/console#token=")
        told, asked, listed, opened = run.printed.values()
        _open_console(opened, directory)
        assert "Noted." in bash(told, tmp_path)
        eventually(lambda: "$10,000" in bash(listed, tmp_path), run.log)
        # Its recall has the default deadline, which a busy machine does not always keep.
        eventually(lambda: "$10,000" in bash(asked, tmp_path), run.log)
        _operate(run, listed)
        second = subprocess.run(run.process.args, capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert f"already runs in {directory} (process {run.process.pid})" in second.stderr
        assert "make run PORT=10100 RUN_DIR=.run2" in second.stderr
        started = run.children
        assert len(started) == 2
        assert run.interrupt() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in started)
    token = (directory / "operator-token").read_text()
    with running(directory, model_directory, port) as run:
        run.until("/v1/memory/console#token=")
        assert run.printed["See what is remembered"] == listed
        assert (directory / "operator-token").read_text() == token
        eventually(lambda: "$10,000" in bash(asked, tmp_path), run.log)
        _survive(run)


def _operate(run: Run, listed: str) -> None:
    """The line that is printed prepares a shell for the other commands."""
    prepared = listed.removesuffix("memory list\n")
    assert "alice" in bash(f"{prepared} turns list", run.log.parent)
    bash(f"{prepared} backup {run.log.parent}/copy", run.log.parent)
    assert (run.log.parent / "copy").is_dir()
    client = "from openai import OpenAI; print(OpenAI().models.list().data[0].id)"
    source = listed.partition("&&")[0]
    assert bash(f"{source} && {sys.executable} -c '{client}'", run.log.parent) == "stand-in\n"
    assert {mode(run.directory / name) for name in ("env", "operator-token", "envoy.yaml")} == {0o600}


def _open_console(printed: str, directory: Path) -> None:
    """The address is that of the page; the token behind the # is what its requests need."""
    address, _, fragment = printed.strip().partition("#")
    token = (directory / "operator-token").read_text()
    assert fragment == f"token={token}&owner=user%3Aalice"
    asked = {"owner": "user:alice"}
    with httpx.Client(trust_env=False, verify=False) as http:
        assert "<title>Memory</title>" in http.get(address).text
        listing = address.removesuffix("/console")
        assert http.get(listing, params=asked, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert http.get(listing, params=asked).status_code == 401


def _survive(run: Run) -> None:
    """A sidecar that ends is told of, and requests pass; without Envoy there is nothing to stay for."""
    sidecar, envoy = run.children
    os.kill(sidecar, signal.SIGKILL)
    run.until("the sidecar was ended by SIGKILL")
    assert "Noted." in bash(run.printed["Tell it something"], run.log.parent)
    os.kill(envoy, signal.SIGKILL)
    assert run.process.wait(_WITHIN_SECONDS) == 2
    assert "Envoy was ended by SIGKILL" in run.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_or_the_terminals_end_while_it_starts_ends_it(
    number: signal.Signals, tmp_path: Path, model_directory: Path
) -> None:
    """With its sidecar, which would keep the ports and the data directory from the next start."""
    with running(tmp_path / "run", model_directory, 0) as run:
        eventually(lambda: bool(run.children), run.log)
        (sidecar,) = run.children
        assert run.interrupt(number) == 0
        assert not Path(f"/proc/{sidecar}").exists()
        assert "stopping" in run.output
