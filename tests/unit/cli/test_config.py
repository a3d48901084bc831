"""`config check` refuses what `serve` refuses, with the same words, and what can never work."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from semrouter_memory.app.sidecar import App
from semrouter_memory.cli import app
from semrouter_memory.config import load
from semrouter_memory.errors import ConfigurationError

MODEL = {
    "llm_endpoint": {"base_url": "http://127.0.0.1:9/v1"},
    "llm_model_name": "m",
    "model_role": "memory_extraction",
}
LOADED: list[tuple[dict[str, Any], list[str]]] = [
    ({"memory": {"milvus": {"address": "localhost"}}}, ["memory.milvus.address", "host:port"]),
    ({"memory": {"milvus": {"address": "milvus:port"}}}, ["memory.milvus.address", "host:port"]),
    ({"memory": {"milvus": {"address": "http://milvus:19530"}}}, ["memory.milvus.address", "host:port"]),
    (
        {"memory": {"recall": {"strategy": "keywords", "keyword_extraction": "llm"}}},
        ["keyword_extraction: llm", "memory_rewrite"],
    ),
    ({"memory": {"recall": {"rewrite": "hyde"}}, "external_models": [MODEL]}, ["rewrite: hyde", "memory_rewrite"]),
    *(
        ({"external_models": [{**MODEL, "llm_endpoint": endpoint}]}, ["external_models.0.llm_endpoint", word])
        for endpoint, word in (
            ({"base_url": ""}, "base_url must be http(s)://"),
            ({"base_url": "qwen:8000/v1"}, "base_url must be http(s)://"),
            ({"base_url": "http://qwen:port/v1"}, "base_url must be http(s)://"),
            ({"address": "http://qwen", "port": 8000}, "host:port"),
            ({"address": "::1", "port": 8000}, "brackets"),
            ({"address": "", "port": 8000}, "host:port"),
        )
    ),
    ({"server": {"listen": "50051"}}, ["server.listen", "host:port"]),
    ({"management": {"listen": "localhost:http"}}, ["management.listen", "host:port"]),
    ({"management": {"operator_listen": "::1:9090"}}, ["management.operator_listen", "brackets"]),
    ({"server": {"listen": f"unix:/{'x' * 120}"}}, ["server.listen", "Unix socket"]),
]
"""Refused wherever a file is read."""
FROM_FILE: list[tuple[dict[str, Any], list[str]]] = [
    ({"server": {"listen": "0.0.0.0:50051"}}, ["server.listen is 0.0.0.0:50051", "shared_secret_file"]),
    ({"management": {"listen": "[::]:8081"}}, ["management.listen is [::]:8081", "shared_secret_file"]),
    (
        {"server": {"listen": "127.0.0.1:8081"}, "management": {"listen": "127.0.0.1:8081"}},
        ["server.listen and management.listen are both 127.0.0.1:8081"],
    ),
    (
        {"management": {"listen": "unix:/tmp/one.sock", "operator_listen": "unix:/tmp/one.sock"}},
        ["management.listen and management.operator_listen are both unix:/tmp/one.sock"],
    ),
    ({"server": {"processes": 2}}, ["server.processes is 2", "memory.redis.url", "memory.milvus.uri"]),
    *(
        ({"memory": {"milvus": {"uri": uri}}}, ["memory.milvus.uri"])
        for uri in (
            "ftp://milvus",
            "http://",
            "http://milvus:port",
            "https://milvus:99999",
            "unix:",
            "~no-such-user/m.db",
        )
    ),
    *(
        ({"memory": {"redis": {"url": url}}}, ["memory.redis.url", "redis://host:port"])
        for url in ("redis://redis:99999", "redis://redis/first", "redis://[::1", "unix://")
    ),
    ({"memory": {"milvus": {"uri": "a name with blanks.db"}}}, ["memory.milvus.uri", "Milvus Lite"]),
    ({"memory": {"redis": {"url": "http://redis"}}}, ["memory.redis.url", "redis://host:port"]),
    ({"memory": {"redis": {"url": "redis://:pw@redis:6379"}}}, ["memory.redis.url", "password_file"]),
]
"""Refused before anything is started; the file alone tells."""
ON_THE_MACHINE: list[tuple[dict[str, Any], list[str]]] = [
    *(
        ({section: {**at, name: "/nowhere/secret"}}, [f"{section}.{name}", "/nowhere/secret", "No such file"])
        for section, name, at in (
            ("server", "shared_secret_file", {"listen": "0.0.0.0:50051"}),
            ("management", "operator_token_file", {}),
            ("recording", "pseudonym_key_file", {}),
        )
    ),
    *(
        ({"memory": {section: {name: "/nowhere/secret"}}}, [f"memory.{section}.{name}", "No such file"])
        for section, name in (("milvus", "token_file"), ("redis", "password_file"))
    ),
    (
        {"telemetry": {"tracing": {"enabled": True, "headers_file": "/nowhere/h"}}},
        ["telemetry.tracing.headers_file", "No such file"],
    ),
    ({"external_models": [{**MODEL, "api_key_env": "NOT_SET"}]}, ["external_models[0]", "NOT_SET"]),
    ({"external_models": [{**MODEL, "api_key_file": "/nowhere/k"}]}, ["external_models[0]", "No such file"]),
    ({"memory": {"data_dir": "/dev/null/data"}}, ["memory.data_dir", "Not a directory"]),
    *(
        ({"memory": {"data_dir": path}}, ["memory.data_dir", "cannot write to /proc"])
        for path in ("/proc/d/data", "/proc")
    ),
    ({"memory": {"milvus": {"uri": "/dev/null/milvus.db"}}}, ["memory.milvus.uri", "Not a directory"]),
    ({"memory": {"milvus": {"uri": "/tmp"}}}, ["memory.milvus.uri", "Is a directory"]),
    ({"recording": {"enabled": True, "directory": "/dev/null/r"}}, ["recording.directory", "Not a directory"]),
    *(
        ({section: {name: f"unix:{path}"}}, [f"{section}.{name}", why])
        for section, name in (("server", "listen"), ("management", "listen"), ("management", "operator_listen"))
        for path, why in (("/dev/null/s", "Not a directory"), ("/dev/null", "a file that is no socket"))
    ),
]
"""The same; this machine tells."""


class Settings:
    def __init__(self, directory: Path, model: Path) -> None:
        self.path = directory / "config.yaml"
        self._own = {"data_dir": str(directory / "data"), "embedding": {"path": str(model)}}

    def write(self, values: dict[str, Any]) -> Path:
        memory = {**self._own, **values.get("memory", {})}
        self.path.write_text(yaml.safe_dump({**values, "memory": memory}), encoding="utf-8")
        return self.path


@pytest.fixture
def settings(tmp_path: Path, model_directory: Path) -> Settings:
    return Settings(tmp_path, model_directory)


def check(path: Path, *options: str) -> str:
    """What `config check` says: that the file fits, or why not."""
    done = CliRunner().invoke(app, ["config", "check", str(path), *options])
    if done.exit_code == 0:
        return done.output
    assert isinstance(done.exception, ConfigurationError), done.exception
    return str(done.exception)


async def serve(path: Path) -> str:
    """Why the service does not start."""
    started = App(load(path))
    with pytest.raises(ConfigurationError) as refused:
        await started.start()
    return str(refused.value)


@pytest.mark.parametrize("options", [(), ("--elsewhere",)])
@pytest.mark.parametrize(("values", "said"), [*LOADED, *FROM_FILE], ids=str)
def test_a_mistake_in_the_file_is_found(
    settings: Settings, values: dict[str, Any], said: list[str], options: tuple[str, ...]
) -> None:
    message = check(settings.write(values), *options)
    assert all(word in message for word in said), message


@pytest.mark.parametrize(("values", "said"), ON_THE_MACHINE, ids=str)
def test_a_mistake_on_this_machine_is_found(settings: Settings, values: dict[str, Any], said: list[str]) -> None:
    message = check(settings.write(values))
    assert all(word in message for word in said), message
    assert "fits" in check(settings.path, "--elsewhere")


@pytest.mark.parametrize("values", [values for values, _ in (*FROM_FILE, *ON_THE_MACHINE)], ids=str)
async def test_serve_says_the_same(settings: Settings, values: dict[str, Any]) -> None:
    path = settings.write(values)
    assert await serve(path) == check(path)


def test_all_mistakes_are_said_at_once(settings: Settings) -> None:
    values = {"server": {"listen": "0.0.0.0:50051"}, "management": {"operator_token_file": "/nowhere/t"}}
    message = check(settings.write(values))
    assert "server.listen" in message
    assert "management.operator_token_file" in message


def test_what_a_start_would_load_is_loaded(settings: Settings, tmp_path: Path) -> None:
    dimensions = {"embedding": {"path": str(tmp_path / "nowhere")}}
    assert "semrouter-memory model build" in check(settings.write({"memory": dimensions}))
    assert "fits" in check(settings.path, "--elsewhere")
    tracing = {"telemetry": {"tracing": {"enabled": True, "protocol": "grpc"}}}
    assert check(settings.write(tracing)) == f"{settings.path} fits\n"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"server": {"listen": "[::1]:50051"}, "management": {"operator_listen": None}},
        {"memory": {"milvus": {"address": "[fd00::1]:19530"}}},
        *(
            {"memory": {"milvus": {"uri": uri}}}
            for uri in ("https://milvus", "http://[::1]:19530/db", "unix:/tmp/m.sock")
        ),
        {"memory": {"redis": {"url": "rediss://redis:6379/3"}, "milvus": {"address": "milvus:19530"}}},
        {"memory": {"redis": {"url": "unix:///tmp/r.sock"}, "milvus": {"address": "milvus:19530"}}},
        {"external_models": [{**MODEL, "llm_endpoint": {"address": "[::1]", "port": 8000}}]},
        {"memory": {"recall": {"rewrite": "vague"}}},
        {
            "server": {"listen": "127.0.0.1:0"},
            "management": {"listen": "127.0.0.1:0", "operator_listen": "127.0.0.1:0"},
        },
        {
            "memory": {"recall": {"rewrite": "always", "keyword_extraction": "llm"}},
            "external_models": [{**MODEL, "model_role": "memory_rewrite"}],
        },
    ],
    ids=str,
)
def test_what_can_work_fits(settings: Settings, values: dict[str, Any]) -> None:
    assert check(settings.write(values)) == f"{settings.path} fits\n"


def test_a_wide_address_with_a_secret_fits(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct horse")
    server = {"listen": "0.0.0.0:50051", "shared_secret_file": str(tmp_path / "secret")}
    assert "fits" in check(settings.write({"server": server}))
