"""Whom the `memory` commands ask when no address is given."""

from pathlib import Path

import pytest
import yaml

from semrouter_memory.cli.connection import TOKEN_FILE_VARIABLE, URL_VARIABLE, ApiEndpoint, UserConnection
from semrouter_memory.config import Config
from semrouter_memory.stack.envoy import SHIPPED


def target(
    user: str | None = None,
    *,
    owner: str | None = None,
    api_key: str | None = None,
    token: Path | None = None,
    url: str | None = None,
) -> ApiEndpoint:
    return UserConnection(url=url, user=user, owner=owner, api_key=api_key, operator_token_file=token).endpoint()


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (URL_VARIABLE, TOKEN_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret")
    return path


def test_a_named_user_is_asked_for_at_the_sidecar(token: Path) -> None:
    management = Config().management
    assert target("alice").url == f"http://{management.listen}"
    assert target("alice", token=token).url == f"http://{management.operator_listen}"


def test_an_api_key_is_shown_to_envoy() -> None:
    """The sidecar does not know keys."""
    shipped = yaml.safe_load((SHIPPED / "two-filter.yaml").read_text(encoding="utf-8"))
    address = shipped["static_resources"]["listeners"][0]["address"]["socket_address"]
    assert target(api_key="key").url == f"http://{address['address']}:{address['port_value']}"


def test_the_environment_of_a_run_leads_to_its_operators_port(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:10001")
    asked = target("bob")
    assert (asked.url, asked.parameters) == ("http://127.0.0.1:10001", {"user_id": "bob"})
    assert asked.headers == {"authorization": "Bearer secret"}
    assert target("bob", token=token) == asked


def test_another_owner_is_named_in_each_request(token: Path) -> None:
    """An operator needs no user for it."""
    assert target(owner="org:acme", token=token).parameters == {"owner": "org:acme"}
    assert target("bob", owner="org:acme").parameters == {"owner": "org:acme"}
    assert target(owner="org:acme", api_key="key").parameters == {"owner": "org:acme"}


def test_a_url_or_an_api_key_is_not_sent_the_operators_token(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    assert target("bob", url="http://127.0.0.1:8081").headers == {"x-authz-user-id": "bob"}
    assert target(api_key="key").headers == {"authorization": "Bearer key"}
