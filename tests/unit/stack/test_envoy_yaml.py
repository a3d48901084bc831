"""What a local installation changes in the shipped Envoy configuration: addresses, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.stack.envoy import PORTS, SHIPPED, StackOptions, envoy_yaml, route_named

CHAINS = sorted(SHIPPED.glob("*.yaml"))


def configured(chain: Path = SHIPPED / "two-filter.yaml", llm: str = "http://127.0.0.1:5/v1", **changes: Any) -> Any:
    options = StackOptions(directory=Path(), model_directory=Path(), chain=str(chain), llm=llm, **changes)
    return yaml.safe_load(envoy_yaml(options, {name: number for number, name in enumerate(PORTS, start=1)}))


def without_addresses(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: without_addresses(value) for key, value in config.items() if key != "socket_address"}
    return [without_addresses(item) for item in config] if isinstance(config, list) else config


@pytest.mark.parametrize("chain", CHAINS, ids=lambda path: path.name)
def test_only_addresses_change(chain: Path) -> None:
    assert without_addresses(configured(chain)) == without_addresses(yaml.safe_load(chain.read_text()))


def cluster(config: Any, name: str) -> Any:
    return next(known for known in config["static_resources"]["clusters"] if known["name"] == name)


def endpoint(config: Any, name: str) -> Any:
    return cluster(config, name)["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]


def test_each_part_is_at_its_port() -> None:
    config = configured()
    listening = [config["static_resources"]["listeners"][0], config["admin"]]
    addresses = [part["address"] for part in listening]
    addresses += [endpoint(config, name) for name in ("memory_api", "memory_sidecar", "llm")]
    found = [address["socket_address"]["port_value"] for address in addresses]
    assert found == [*(1 + PORTS.index(name) for name in ("port", "admin_port", "api_port", "ext_proc_port")), 5]


@pytest.mark.parametrize(
    ("url", "address", "port", "tls"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8000, False),
        ("http://llm/v1", "llm", 80, False),
        ("https://api.example.com/v1/", "api.example.com", 443, True),
    ],
)
def test_the_llm_server(url: str, address: str, port: int, *, tls: bool) -> None:
    config = configured(llm=url)
    assert endpoint(config, "llm")["socket_address"] == {"address": address, "port_value": port}
    assert ("transport_socket" in cluster(config, "llm")) is tls


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/openai/v1", "/openai/v1/chat/completions"),
        ("/v1beta/openai", "/v1beta/openai/chat/completions"),
    ],
)
def test_requests_go_to_what_openai_clients_make_of_the_base_url(base: str, path: str) -> None:
    config = configured(llm=f"https://api.example.com{base}", llm_key="sk")
    for name in ("llm", "other"):
        route = route_named(config["static_resources"]["listeners"][0], name)
        rewrite = route["route"].get("regex_rewrite", {"pattern": {"regex": "$^"}, "substitution": ""})
        assert re.sub(rewrite["pattern"]["regex"], rewrite["substitution"], "/v1/chat/completions") == path
        assert route["route"]["host_rewrite_literal"] == "api.example.com"
        assert route["request_headers_to_add"][0]["header"] == {"key": "authorization", "value": "Bearer sk"}


@pytest.mark.parametrize(
    "url", ["", "host:8000", "ftp://x", "/v1", "http://host:port/v1", "http://host:99999", "http://host:0"]
)
def test_a_malformed_url_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match="LLM_BASE_URL"):
        configured(llm=url)


def test_a_missing_chain_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"two-filter.yaml is missing"):
        configured(tmp_path / "two-filter.yaml")
