"""`semrouter-memory doctor` on the command line: what it prints, and its exit status."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from semrouter_memory.cli import app
from semrouter_memory.config import Config
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.diagnose import model_files
from semrouter_memory.doctor.finding import Severity
from tests.deploy_files import FILES, Chain
from tests.envoy_mutations import chain, filter_of


def doctor(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["doctor", "--offline", *map(str, arguments)])


def findings(result: Result) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(result.stdout)
    return found


def saved(directory: Path, envoy: Chain) -> Path:
    path = directory / "envoy.yaml"
    path.write_text(yaml.safe_dump(envoy.bootstrap), "utf-8")
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("envoy/two-filter.yaml",),
        ("envoy/single-filter.yaml",),
        ("envoy/jwt.yaml",),
        ("deploy/envoy.yaml",),
        ("deploy/envoy.yaml", "--config", "deploy/config.yaml"),
        (),
    ],
)
def test_the_shipped_files_have_no_errors(arguments: tuple[str, ...]) -> None:
    paths = [argument if argument.startswith("-") else FILES.root / argument for argument in arguments]
    result = doctor(*paths, "--json")
    assert result.exit_code == 0
    assert [finding for finding in findings(result) if finding["severity"] == "error"] == []


@pytest.mark.parametrize("settings", [None, "", "memory: {embedding: {path: /no/such/directory}}"])
def test_offline_a_model_on_another_machine_is_not_missed(tmp_path: Path, settings: str | None) -> None:
    arguments: list[str | Path] = [FILES.root / "envoy" / "two-filter.yaml"]
    if settings is not None:
        (tmp_path / "config.yaml").write_text(settings, "utf-8")
        arguments += ["--config", tmp_path / "config.yaml"]
    result = doctor(*arguments)
    assert (result.exit_code, result.stdout) == (0, "nothing found\n")


@pytest.mark.parametrize("given", [True, False])
def test_on_the_sidecars_machine_a_missing_model_is_an_error(tmp_path: Path, *, given: bool) -> None:
    """Without its settings the model's place is not known."""
    config = Config.model_validate({"memory": {"embedding": {"path": str(tmp_path / "none")}}})
    context = CheckContext(config=config, config_given=given)
    found = [finding.severity for finding in model_files(context, elsewhere=False)]
    assert found == ([Severity.ERROR] if given else [])


def test_offline_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "config.yaml").write_text(f"memory: {{embedding: {{path: {tmp_path}/model}}}}", "utf-8")
    (finding,) = findings(doctor("--config", tmp_path / "config.yaml", "--json"))
    assert (finding["severity"], finding["code"]) == ("error", "embedding-model")


def test_a_mistake_is_exit_status_1_with_its_place_and_its_fix(tmp_path: Path) -> None:
    envoy = chain()
    filter_of(envoy, "memory.recall").pop("failure_mode_allow")
    result = doctor(saved(tmp_path, envoy))
    assert result.exit_code == 1
    assert "error failure-mode-allow" in result.stdout
    assert "http_filters[3].typed_config.failure_mode_allow" in result.stdout
    assert "fix: failure_mode_allow: true" in result.stdout
    assert "1 error" in result.stdout


def test_warnings_alone_are_exit_status_0(tmp_path: Path) -> None:
    envoy = chain()
    envoy.manager.pop("use_remote_address")
    result = doctor(saved(tmp_path, envoy))
    assert "warning request-id" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("envoy.yaml", b""), ("envoy.yaml", b"\xff\xfe"), ("envoy.yaml", b"a: {"), ("none.yaml", None)],
)
def test_what_cannot_be_read_is_a_finding_and_no_traceback(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = doctor(path, "--json")
    assert result.exit_code == 1
    assert [finding["code"] for finding in findings(result) if finding["severity"] == "error"] == ["envoy-unreadable"]


def test_dimensions_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memory: {milvus: {dimension: 768}}", "utf-8")
    result = doctor("--config", config, "--json")
    assert result.exit_code == 1
    (finding,) = findings(result)
    assert finding["code"] == "dimension-mismatch"
    assert "768" in finding["what"]
    assert "384" in finding["what"]


def test_settings_that_do_not_fit_keep_nobody_from_looking_at_envoy(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memory: {no_such_key: 1}", "utf-8")
    envoy = chain()
    filter_of(envoy, "memory.recall").pop("failure_mode_allow")
    result = doctor(saved(tmp_path, envoy), "--config", config, "--json")
    assert {finding["code"] for finding in findings(result)} == {"configuration", "failure-mode-allow"}


def test_a_name_that_steers_the_terminal_does_not(tmp_path: Path) -> None:
    envoy = chain()
    envoy.clusters["memory_sidecar"]["name"] = "x\x1b[2J"
    for name in ("memory.retain", "memory.recall"):
        filter_of(envoy, name)["grpc_service"]["envoy_grpc"]["cluster_name"] = "x\x1b[2J"
    envoy.bootstrap["static_resources"]["clusters"][0].pop("circuit_breakers")
    result = doctor(saved(tmp_path, envoy))
    assert "circuit-breaker" in result.stdout
    assert "\x1b[2J" not in result.stdout


def test_without_an_envoy_its_validation_is_missing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = doctor(FILES.root / "envoy" / "two-filter.yaml", "--json")
    assert result.exit_code == 0
    (finding,) = findings(result)
    assert (finding["severity"], finding["code"]) == ("warning", "envoy-not-validated")
    assert "semrouter-memory[envoy]" in finding["fix"]


def test_the_same_mistake_is_reported_once_by_envoy_and_by_the_checks(tmp_path: Path) -> None:
    envoy = chain()
    filter_of(envoy, "memory.recall")["message_timeout"] = "500ms"
    found = [each for each in findings(doctor(saved(tmp_path, envoy), "--json")) if each["code"] == "envoy-field"]
    assert [each["where"].rpartition(".")[2] for each in found] == ["message_timeout"]
