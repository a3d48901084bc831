"""Envoy's own validation names what Envoy refuses, and a file that cannot be read ends in one clear message."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import Config
from semrouter_memory.doctor import envoy_file
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.diagnose import run_checks
from semrouter_memory.doctor.finding import Finding
from semrouter_memory.errors import ConfigurationError
from tests.deploy_files import FILES, Chain
from tests.envoy_mutations import chain, codes, diagnose, filter_of, move, text_of

_EXT_PROC = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[2].typed_config"


def validated(envoy: Chain) -> list[Finding]:
    """What the real Envoy refuses."""
    return envoy_file.validate(text_of(envoy), "envoy.yaml")


def written(directory: Path, content: str | bytes) -> Path:
    path = directory / "envoy.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "path", ["envoy/two-filter.yaml", "envoy/single-filter.yaml", "envoy/jwt.yaml", "deploy/envoy.yaml"]
)
def test_every_shipped_bootstrap_is_accepted_by_envoy(path: str) -> None:
    findings = envoy_file.validate(envoy_file.read(FILES.root / path)[1], path)
    # The key set of envoy/jwt.yaml is a file on Envoy's machine.
    assert codes(findings) == ({("warning", "envoy-not-validated")} if "jwt" in path else set())


_REFUSED: list[tuple[str, Callable[[dict[str, Any]], object], str, str]] = [
    ("an unknown field", lambda c: c.update(failure_mode_alow=True), "failure_mode_alow", "no such field"),
    ("a word for a switch", lambda c: c.update(observability_mode="maybe"), "observability_mode", "'true' or 'false'"),
    ("milliseconds", lambda c: c.update(deferred_close_timeout="500ms"), "deferred_close_timeout", "single 's'"),
    ("a merge key", lambda c: c["grpc_service"].update({"<<": {"timeout": "0s"}}), "grpc_service.<<", "no such field"),
    ("a number for a duration", lambda c: c.update(deferred_close_timeout=60), "deferred_close_timeout", "Duration"),
    ("a list for a mapping", lambda c: c.update(processing_mode=[]), "processing_mode", "ProcessingMode"),
    ("a number for text", lambda c: c["grpc_service"].update(initial_metadata=[{"key": "x-memory-limit", "value": 5}]), "grpc_service.initial_metadata[0].value", "string"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "where", "says"), _REFUSED, ids=[case[0] for case in _REFUSED])
def test_what_envoy_refuses_is_named_with_its_path(
    name: str, change: Callable[[dict[str, Any]], object], where: str, says: str
) -> None:
    envoy = chain()
    change(filter_of(envoy, "memory.retain"))
    (finding,) = validated(envoy)
    assert (finding.severity.value, finding.code) == ("error", "envoy-field"), name
    assert finding.where == f"{_EXT_PROC}.{where}"
    assert says in finding.what


def _route(envoy: Chain) -> dict[str, Any]:
    action: dict[str, Any] = envoy.routes["llm"]["route"]
    return action


def _weighted(envoy: Chain, name: str) -> None:
    clusters = [{"name": "llm", "weight": 1}, {"name": name, "weight": 1}]
    envoy.routes["llm"]["route"] = {"weighted_clusters": {"clusters": clusters}}


def _protocol(envoy: Chain) -> dict[str, Any]:
    (options,) = envoy.clusters["memory_sidecar"]["typed_extension_protocol_options"].values()
    assert isinstance(options, dict)
    return options


def _protocol_key(envoy: Chain, key: str) -> None:
    envoy.clusters["memory_sidecar"]["typed_extension_protocol_options"] = {key: _protocol(envoy)}


def _retain(envoy: Chain) -> dict[str, Any]:
    return filter_of(envoy, "memory.retain")


_REFUSED_WITHOUT_A_PATH: list[tuple[str, Callable[[Chain], object], str]] = [
    ("no such number", lambda e: _retain(e)["processing_mode"].update(request_body_mode=99), "RequestBodyMode"),
    ("no such mode", lambda e: _retain(e)["processing_mode"].update(request_body_mode="BUFERED"), "BUFERED"),
    ("no such type", lambda e: _retain(e).update({"@type": f"{_retain(e)['@type']}Filter"}), "could not find @type"),
    ("no router", lambda e: e.manager["http_filters"].pop(), "is the last filter in a http filter chain"),
    ("a filter behind the router", lambda e: move(e, "envoy.filters.http.router", 1), "router must be the last filter"),
    ("HTTP/2 to be agreed on without TLS", lambda e: _protocol(e).update(auto_config=_protocol(e).pop("explicit_http_config")), "non-ALPN transport socket"),
    ("protocol options under another name", lambda e: _protocol_key(e, "http2"), "for name: 'http2'"),
    ("the LLM's cluster is not there", lambda e: _route(e).update(cluster="gone"), "unknown cluster 'gone'"),
    ("a weighted cluster is not there", lambda e: _weighted(e, "gone"), "unknown weighted cluster 'gone'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "says"), _REFUSED_WITHOUT_A_PATH, ids=[case[0] for case in _REFUSED_WITHOUT_A_PATH]
)
def test_what_envoy_refuses_without_a_path_is_an_error_of_the_file(
    name: str, change: Callable[[Chain], object], says: str
) -> None:
    envoy = chain()
    change(envoy)
    (finding,) = validated(envoy)
    assert (finding.severity.value, finding.code, finding.where) == ("error", "envoy-field", "envoy.yaml"), name
    assert says in finding.what


def test_one_misread_value_hides_no_other_and_needs_no_envoy() -> None:
    envoy = chain()
    filter_of(envoy, "memory.retain").update(deferred_close_timeout="500ms", observability_mode="maybe")
    envoy.clusters["memory_sidecar"]["per_connection_buffer_limit_bytes"] = "${LIMIT}"
    found = {finding.where: finding for finding in diagnose(envoy) if finding.code == "envoy-field"}
    assert {where.rpartition(".")[2] for where in found} == {
        "deferred_close_timeout",
        "observability_mode",
        "per_connection_buffer_limit_bytes",
    }
    assert all("needs" in finding.what and "envsubst" in finding.fix for finding in found.values())


def test_a_value_that_may_be_a_key_is_not_repeated() -> None:
    envoy = chain()
    filter_of(envoy, "envoy.filters.http.api_key_auth")["credentials"][0]["key"] = 123456789
    (finding,) = validated(envoy)
    assert finding.where.endswith("credentials[0].key")
    assert "123456789" not in finding.what
    assert "demo-key" not in finding.what


def test_a_type_of_an_extension_is_no_error() -> None:
    envoy = chain()
    envoy.manager["http_filters"].insert(
        0, {"name": "own", "typed_config": {"@type": "type.googleapis.com/com.example.Filter", "anything": [1]}}
    )
    assert codes(validated(envoy)) == {("warning", "envoy-not-validated")}


_BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)
_UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "is empty"),
    "only comments": ("# nothing\n", "is empty"),
    "bytes": (bytes(range(128, 256)), "is not text"),
    "control characters": (b"\0\0\0", "is not YAML"),
    "no YAML": ("a: b: c: {", "is not YAML, line 1"),
    "text": ("just words", "holds no mapping"),
    "a list": ("- static_resources: {}", "holds no mapping"),
    "other YAML": ("name: x\non: push\n", "its keys are"),
    "our own settings": ("memory: {enabled: true}\n", "--config"),
    "a manifest": ("apiVersion: v1\nkind: Service\n", "its keys are 'apiVersion', 'kind'"),
    "a compose file": ("services: {}\n", "its keys are 'services'"),
    "a dump of nothing": ('{"configs": []}', "its keys are 'configs'"),
    "a dump in itself": ("configs: &a [*a]", "not YAML"),
    "two bootstraps": ("static_resources: {}\n---\nstatic_resources: {}\n", "one at a time"),
    "a date": ("2024-13-45", "holds no mapping"),
    "a Python object": ("x: !!python/object/apply:os.getcwd []", "its keys are"),
    # PyYAML refuses it itself from 6.0.4 on.
    "depth": ("[" * 100_000, "nest"),
    "depth in blocks": ("\n".join("  " * depth + "a:" for depth in range(200)), "nested more than"),
    "a cycle": ("layered_runtime: {layers: [{static_layer: &a {x: *a}}]}", "recursive"),
    "a bomb": (_BOMB + "static_resources: {listeners: [{metadata: {filter_metadata: {x: {y: *g}}}}]}", "more than"),
    "size": (b"#" * (5 * 1024 * 1024), "larger than"),
}


def test_of_a_dump_what_is_in_use_counts(tmp_path: Path) -> None:
    """Not what replaces it once it is warm, nor what Envoy refused; names may be anything."""
    states = {"warming_state": "new", "active_state": "used", "error_state": "refused"}
    kind = "type.googleapis.com/envoy.config.listener.v3.Listener"
    dynamic = {state: {"listener": {"@type": kind, "name": name}} for state, name in states.items()}
    odd = {"listener": {"@type": kind, "name": {}}}
    bootstrap, _ = envoy_file.read(written(tmp_path, json.dumps({"configs": [{"listeners": [dynamic, odd]}]})))
    names = [listener.get("name").value for listener in bootstrap.get("static_resources").items("listeners")]
    assert names == ["used", {}]


@pytest.mark.parametrize("name", _UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_message(name: str, tmp_path: Path) -> None:
    content, says = _UNREADABLE[name]
    with pytest.raises(ConfigurationError) as refusal:
        envoy_file.read(written(tmp_path, content))
    assert says in str(refusal.value)
    assert "envoy.yaml" in str(refusal.value)


def test_a_file_that_is_not_there_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        envoy_file.read(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="is a directory"):
        envoy_file.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "static_resources: 5",
        "admin: " + "9" * 5000,
        "static_resources: {listeners: [5, null, {}], clusters: [null, {name: 5}]}",
        "static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {}}]}]}]}",
        "1: 2\nadmin: {5: 6}\nstatic_resources: {}",
        "static_resources: {clusters: [{name: a, typed_extension_protocol_options: {x: {'@type': 7}}}]}",
    ],
)
def test_a_bootstrap_full_of_nonsense_is_still_looked_through(content: str, tmp_path: Path) -> None:
    bootstrap, _ = envoy_file.read(written(tmp_path, content))
    assert isinstance(run_checks(CheckContext(bootstrap=bootstrap, config=Config())), list)


def test_values_that_envoy_takes_are_taken() -> None:
    envoy = chain()
    filter_of(envoy, "memory.retain").update(observability_mode="true", failure_mode_allow="Yes")
    filter_of(envoy, "memory.recall")["processing_mode"].update(request_body_mode="buffered", response_body_mode="0")
    envoy.clusters["memory_sidecar"]["circuit_breakers"]["thresholds"] = {
        "max_requests": "6.5536e4",
        "max_connections": "65536",
        "max_pending_requests": 65536.0,
    }
    envoy.manager["route_config"]["virtual_hosts"][0]["domains"] = "*"
    assert diagnose(envoy) == []


def test_a_typed_struct_that_holds_itself_is_refused(tmp_path: Path) -> None:
    kind = "'@type': type.googleapis.com/xds.type.v3.TypedStruct, type_url: type.googleapis.com/xds.type.v3.TypedStruct"
    content = f"static_resources: {{clusters: [{{transport_socket: {{typed_config: &a {{{kind}, value: *a}}}}}}]}}"
    with pytest.raises(ConfigurationError, match="recursive"):
        envoy_file.read(written(tmp_path, content))


def test_yaml_is_read_as_envoy_reads_it(tmp_path: Path) -> None:
    bootstrap, _ = envoy_file.read(
        written(
            tmp_path,
            "!ignore shared:\n- &name 2024-01-01\n- {no_field: of_any}\n"
            "static_resources:\n  clusters:\n  - {name: *name, connect_timeout: 1s}\n"
            "  - &first {name: 1:30}\n  - {<<: *first, alt_stat_name: b}\n",
        )
    )
    clusters = bootstrap.get("static_resources").items("clusters")
    assert [cluster.get("name").text for cluster in clusters] == ["2024-01-01", "1:30", ""]
    assert "shared" not in bootstrap.fields


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    bootstrap, text = envoy_file.read(written(tmp_path, json.dumps(chain().bootstrap)))
    assert run_checks(CheckContext(bootstrap=bootstrap, config=Config())) == []
    assert envoy_file.validate(text, "envoy.yaml") == []
