"""Envoy's configuration is read as strictly as Envoy reads it, and whatever else is given ends in one clear message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.doctor import envoy_file
from semrouter_memory.errors import ConfigurationError
from tests.deploy_files import FILES, Chain
from tests.envoy_mutations import chain, codes, diagnose, filter_of, read

_EXT_PROC = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[2].typed_config"


def written(directory: Path, content: str | bytes) -> Path:
    path = directory / "envoy.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "path", ["envoy/two-filter.yaml", "envoy/single-filter.yaml", "envoy/jwt.yaml", "deploy/envoy.yaml"]
)
def test_every_shipped_bootstrap_is_read_without_a_doubt(path: str) -> None:
    assert envoy_file.read(FILES.root / path).refused == ()


_REFUSED: list[tuple[str, Callable[[dict[str, Any]], object], str, str]] = [
    ("an unknown field", lambda c: c.update(failure_mode_alow=True), "failure_mode_alow", "failure_mode_allow meant"),
    ("a word for a switch", lambda c: c.update(observability_mode="on"), "observability_mode", "true or false"),
    ("milliseconds", lambda c: c.update(deferred_close_timeout="500ms"), "deferred_close_timeout", "in seconds"),
    ("a number that no mode has", lambda c: c["processing_mode"].update(request_body_mode=99), "processing_mode.request_body_mode", "BUFFERED_PARTIAL"),
    ("no base64", lambda c: c["grpc_service"].update(initial_metadata=[{"key": "x-memory-limit", "raw_value": "!"}]), "grpc_service.initial_metadata[0].raw_value", "base64"),
    ("a merge key", lambda c: c["grpc_service"].update({"<<": {"timeout": "0s"}}), "grpc_service.<<", "merges nothing"),
    ("a number for a duration", lambda c: c.update(deferred_close_timeout=60), "deferred_close_timeout", "a duration"),
    ("a duration without a unit", lambda c: c.update(deferred_close_timeout="60"), "deferred_close_timeout", "1.5s"),
    ("an unknown mode", lambda c: c["processing_mode"].update(request_body_mode="BUFERED"), "processing_mode.request_body_mode", "BUFFERED_PARTIAL"),
    ("a list for a mapping", lambda c: c.update(processing_mode=[]), "processing_mode", "needs a mapping"),
    ("a mapping for texts", lambda c: c.update(request_attributes={}), "request_attributes[0]", "quote it"),
    ("a number for text", lambda c: c["grpc_service"].update(initial_metadata=[{"key": "x-memory-limit", "value": 5}]), "grpc_service.initial_metadata[0].value", "quote it"),
    ("two of a kind that excludes", lambda c: c["grpc_service"].update(google_grpc={"target_uri": "x", "stat_prefix": "x"}), "grpc_service", "exclude each other"),
    ("a type that is none", lambda c: c.update({"@type": f"{c['@type']}Filter"}), "@type", "Envoy has no type"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "where", "says"), _REFUSED, ids=[case[0] for case in _REFUSED])
def test_what_does_not_fit_is_named_with_its_path(
    name: str, change: Callable[[dict[str, Any]], object], where: str, says: str
) -> None:
    envoy = chain()
    change(filter_of(envoy, "memory.retain"))
    (problem,) = read(envoy)
    assert problem.path == f"{_EXT_PROC}.{where}", name
    assert says in problem.what


def test_one_mistyped_field_hides_no_other() -> None:
    envoy = chain()
    filter_of(envoy, "memory.retain").update(failure_mode_alow=True, observability_mode="on")
    envoy.clusters["llm"]["connect_timeout"] = "5 seconds"
    assert {problem.path.rpartition(".")[2] for problem in read(envoy)} == {
        "observability_mode",
        "failure_mode_alow",
        "connect_timeout",
    }


def test_a_mistyped_item_of_a_list_hides_nothing_around_it() -> None:
    envoy = chain()
    envoy.manager["route_config"]["virtual_hosts"][0]["domains"] = ["*", 5]
    (problem,) = read(envoy)
    assert problem.path.endswith("virtual_hosts[0].domains[1]")


def test_a_placeholder_is_told_to_be_filled_in() -> None:
    envoy = chain()
    envoy.clusters["llm"]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"][
        "socket_address"
    ]["port_value"] = "${LLM_PORT}"
    (problem,) = read(envoy)
    assert "envsubst" in problem.what


def test_a_value_that_may_be_a_key_is_not_repeated() -> None:
    envoy = chain()
    filter_of(envoy, "envoy.filters.http.api_key_auth")["credentials"][0]["key"] = 123456789
    (problem,) = read(envoy)
    assert "123456789" not in problem.what


def test_a_type_of_somebody_else_is_let_through() -> None:
    envoy = chain()
    envoy.manager["http_filters"].insert(
        0, {"name": "own", "typed_config": {"@type": "type.googleapis.com/com.example.Filter", "anything": [1]}}
    )
    assert read(envoy) == []


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
    "a manifest": ("apiVersion: v1\nkind: Service\n", "Kubernetes manifest"),
    "a compose file": ("services: {}\n", "compose file"),
    "a dump": ('{"configs": []}', "/config_dump"),
    "two bootstraps": ("static_resources: {}\n---\nstatic_resources: {}\n", "one at a time"),
    "a date": ("2024-13-45", "holds no mapping"),
    "a number of many digits": ("admin: " + "9" * 5000, "is not YAML"),
    "a Python object": ("x: !!python/object/apply:os.getcwd []", "is not YAML"),
    "depth": ("[" * 100_000, "nested more than"),
    "depth in blocks": ("\n".join("  " * depth + "a:" for depth in range(200)), "nested more than"),
    "a cycle": ("layered_runtime: {layers: [{static_layer: &a {x: *a}}]}", "nested more than"),
    "a bomb": (_BOMB + "static_resources: {listeners: [{metadata: {filter_metadata: {x: {y: *g}}}}]}", "more than"),
    "size": (b"#" * (5 * 1024 * 1024), "larger than"),
}


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
        "static_resources: {listeners: [5, null, {}], clusters: [null, {name: 5}]}",
        "static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {}}]}]}]}",
        "1: 2\nadmin: {5: 6}\nstatic_resources: {}",
        "static_resources: {clusters: [{name: a, typed_extension_protocol_options: {x: {'@type': 7}}}]}",
    ],
)
def test_a_bootstrap_full_of_nonsense_is_still_looked_through(content: str, tmp_path: Path) -> None:
    file = envoy_file.read(written(tmp_path, content))
    assert file.refused or file.bootstrap.message is not None


def test_a_config_map_that_carries_a_bootstrap_is_opened(tmp_path: Path) -> None:
    inner = (FILES.root / "deploy" / "envoy.yaml").read_text("utf-8")
    lines = "".join(f"    {line}\n" for line in inner.splitlines())
    manifest = f"apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: ConfigMap\ndata:\n  envoy.yaml: |\n{lines}"
    file = envoy_file.read(written(tmp_path, manifest))
    assert file.refused == ()
    assert file.bootstrap.path == 'data["envoy.yaml"]'


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


def test_a_typed_struct_is_read_as_what_it_holds() -> None:
    envoy = chain()
    entry = envoy.filters["memory.recall"]
    content = dict(entry["typed_config"], failure_mode_allow=False)
    entry["typed_config"] = {
        "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
        "type_url": content.pop("@type"),
        "value": content,
    }
    assert codes(diagnose(envoy)) == {("error", "failure-mode-allow")}


def test_a_typed_struct_that_holds_itself_is_no_loop(tmp_path: Path) -> None:
    kind = "'@type': type.googleapis.com/xds.type.v3.TypedStruct, type_url: type.googleapis.com/xds.type.v3.TypedStruct"
    content = f"static_resources: {{clusters: [{{transport_socket: {{typed_config: &a {{{kind}, value: *a}}}}}}]}}"
    assert envoy_file.read(written(tmp_path, content)).refused == ()


def test_yaml_is_read_as_envoy_reads_it(tmp_path: Path) -> None:
    file = envoy_file.read(
        written(
            tmp_path,
            "!ignore shared:\n- &name 2024-01-01\n- {no_field: of_any}\n"
            "static_resources:\n  clusters:\n  - {name: *name, connect_timeout: 1s}\n"
            "  - &first {name: 1:30}\n  - {<<: *first, name: b}\n",
        )
    )
    assert [problem.path for problem in file.refused] == ["static_resources.clusters[2].<<"]
    clusters = file.bootstrap.message.static_resources.clusters
    assert [cluster.name for cluster in clusters] == ["2024-01-01", "1:30", "b"]


def test_a_config_map_in_camel_case_is_opened(tmp_path: Path) -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\ndata:\n  envoy.yaml: |\n    staticResources: {clusters: []}\n"
    assert envoy_file.read(written(tmp_path, manifest)).bootstrap.path == 'data["envoy.yaml"]'


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    import json

    assert envoy_file.read(written(tmp_path, json.dumps(Chain(chain().bootstrap).bootstrap))).refused == ()
