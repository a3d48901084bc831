"""The shipped Envoy configurations, taken apart so that a test can make one mistake in them and ask doctor about it."""

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from semrouter_memory.config import Config
from semrouter_memory.doctor import envoy_file
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.diagnose import run_checks
from semrouter_memory.doctor.finding import Finding
from tests.deploy_files import FILES, Chain, Json

TYPES = "type.googleapis.com/envoy"
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
PER_ROUTE = f"{TYPES}.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"


def chain(name: str = "two-filter") -> Chain:
    """A shipped chain, without shared parts: changing one filter's service leaves the other's alone."""
    return Chain(_unshared(FILES.chain(f"envoy/{name}.yaml").bootstrap))


def _unshared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else copy.copy(value)


def filter_of(envoy: Chain, name: str) -> Json:
    config: Json = envoy.filters[name]["typed_config"]
    return config


def override(**overrides: Any) -> Json:
    return {"@type": PER_ROUTE, "overrides": overrides}


def http2_of(envoy: Chain) -> Json:
    options = envoy.clusters["memory_sidecar"]["typed_extension_protocol_options"]
    (protocol,) = options.values()
    http2: Json = protocol["explicit_http_config"]["http2_protocol_options"]
    return http2


def endpoints(envoy: Chain, cluster: str) -> list[Json]:
    found: list[Json] = envoy.clusters[cluster]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    return found


def move(envoy: Chain, name: str, index: int) -> None:
    """Put a filter at another place of its chain."""
    filters = envoy.manager["http_filters"]
    entry = envoy.filters[name]
    filters.remove(entry)
    filters.insert(index, entry)


def text_of(envoy: Chain) -> str:
    """The bootstrap as a file has it."""
    text: str = yaml.dump(envoy.bootstrap, Dumper=_DUMPER)
    return text


def diagnose(
    envoy: Chain, settings: Mapping[str, Any] | None = None, *, config_given: bool = True, secret: str | None = None
) -> list[Finding]:
    config = Config(**(settings or {}))
    return run_checks(
        CheckContext(
            bootstrap=envoy_file.parse(text_of(envoy), "envoy.yaml"),
            config=config,
            config_given=config_given,
            secret=secret,
        )
    )


def codes(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.severity.value, finding.code) for finding in findings}
