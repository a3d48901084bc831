"""Whom the `memory` commands ask when no address is given."""

from pathlib import Path

import pytest
import yaml

from semrouter_memory.cli.memory import _connect
from semrouter_memory.config import Config
from semrouter_memory.stack.envoy import SHIPPED


def url(*, user: str | None = None, api_key: str | None = None, token: Path | None = None) -> str:
    return _connect(url=None, user=user, user_header="x-authz-user-id", api_key=api_key, operator_token_file=token).url


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret")
    return path


def test_a_named_user_is_asked_for_at_the_sidecar(token: Path) -> None:
    management = Config().management
    assert url(user="alice") == f"http://{management.listen}"
    assert url(user="alice", token=token) == f"http://{management.operator_listen}"


def test_an_api_key_is_shown_to_envoy() -> None:
    """The sidecar does not know keys."""
    shipped = yaml.safe_load((SHIPPED / "two-filter.yaml").read_text(encoding="utf-8"))
    address = shipped["static_resources"]["listeners"][0]["address"]["socket_address"]
    assert url(api_key="key") == f"http://{address['address']}:{address['port_value']}"
