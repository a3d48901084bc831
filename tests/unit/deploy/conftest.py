"""What the tests of deploy/ share."""

import os

import pytest

from semrouter_memory.config import ENV_PREFIX


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of whoever runs the tests do not reach them."""
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            monkeypatch.delenv(name)
