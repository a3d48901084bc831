"""Clients of models are ready before the service is: their first call loads nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from semrouter_memory.app.adapters import ExternalModels
from semrouter_memory.app.sidecar import App
from semrouter_memory.config import Config
from semrouter_memory.llm.client import warm
from tests.chat_server import StandInServer
from tests.component.test_app import settings

_FIRST_CALL = """
import asyncio, sys
from contextlib import AsyncExitStack
from semrouter_memory.app.adapters import ExternalModels
from semrouter_memory.config import MemoryConfig
from semrouter_memory.model import ChatMessage
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.metrics import TelemetryObserver
from tests.chat_server import section

async def main():
    async with AsyncExitStack() as on_exit:
        sections = [section(int(sys.argv[1]))]
        models = ExternalModels(sections, MemoryConfig().retain, TelemetryObserver(Metrics()), on_exit)
        await models.warm()
        loaded = set(sys.modules)
        assert await models.of_role("memory_extraction").complete([ChatMessage("user", "x")]) == "ok"
        print(sorted(set(sys.modules) - loaded))

asyncio.run(main())
"""


def test_the_first_call_after_the_start_loads_nothing(chat_server: StandInServer) -> None:
    """In a process of its own, where nothing has called a model before."""
    chat_server.content("ok")
    command = [sys.executable, "-c", _FIRST_CALL, str(chat_server.port)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    assert len(chat_server.requests) == 1, "the server is asked nothing to get warm"


async def test_every_client_is_warm_before_the_service_serves_though_no_server_is_there(
    tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving: list[str] = []
    warm = ExternalModels.warm

    async def noted(models: ExternalModels) -> None:
        await warm(models)
        serving.append(app.ext_proc_address)

    monkeypatch.setattr(ExternalModels, "warm", noted)
    endpoint = {"address": "127.0.0.1", "port": 9}
    values = settings(tmp_path, model_directory) | {
        "external_models": [
            {"model_role": role, "llm_endpoint": endpoint, "llm_model_name": "small"}
            for role in ("memory_rewrite", "memory_extraction", "memory_reconcile")
        ]
    }
    app = App(Config(**values))
    await app.start()
    await app.stop()
    assert serving == [""]


async def test_what_cannot_be_warmed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("asyncio.start_server", refused)
    assert await warm() is False
