"""What the process writes to its log, and what it never writes."""

import asyncio
import json
import logging
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import structlog

from semrouter_memory.config import TelemetryConfig
from semrouter_memory.model import ReconcileAction
from semrouter_memory.telemetry import logs

CANARY = "my-secret-canary"


def written(stream: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def configured(**settings: Any) -> StringIO:
    stream = StringIO()
    logs.configure(TelemetryConfig(**settings), stream=stream)
    return stream


def test_a_line_is_json_with_level_and_utc_time() -> None:
    stream = configured()
    structlog.get_logger("semrouter_memory").info("Memory: Stored 2 facts", actions={ReconcileAction.ADD: 2})
    (line,) = written(stream)
    assert (line["event"], line["level"], line["actions"]) == ("Memory: Stored 2 facts", "info", {"add": 2})
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)


def test_the_level_holds_for_us_and_for_libraries() -> None:
    stream = configured(log_level="WARNING")
    structlog.get_logger("semrouter_memory").info("quiet")
    logging.getLogger("some.library").info("quiet")
    logging.getLogger("some.library").warning("loud %s", 1)
    assert [(line["event"], line["logger"]) for line in written(stream)] == [("loud 1", "some.library")]


@pytest.mark.parametrize("library", ["uvicorn.access", "httpx", "openai._base_client", "pymilvus.client", "grpc"])
def test_libraries_that_would_log_requests_are_quiet_even_at_debug(library: str) -> None:
    stream = configured(log_level="DEBUG")
    logging.getLogger(library).debug("request %s", CANARY)
    logging.getLogger(library).info("request %s", CANARY)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_exceptions_message_is_not_written_but_where_it_came_from(log_format: str) -> None:
    stream = configured(log_format=log_format)

    def choke() -> None:
        raise ValueError(CANARY)

    for logger in (structlog.get_logger("semrouter_memory"), logging.getLogger("some.library")):
        try:
            choke()
        except ValueError as error:
            logger.warning("failed", exc_info=error)
            logger.exception("failed too")
    text = stream.getvalue()
    assert text.count("ValueError") == 4
    assert text.count("choke") == 4
    assert CANARY not in text


async def test_a_task_that_dies_unseen_does_not_leak_its_message() -> None:
    """asyncio writes the exception's repr into the record's message."""
    stream = configured()
    error = ValueError(CANARY)
    context = {"message": "Task exception was never retrieved", "exception": error, "future": [error]}
    asyncio.get_running_loop().default_exception_handler(context)
    assert "Task exception was never retrieved" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_a_line_that_cannot_be_rendered_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of printed raw by the standard library."""
    stream = configured()
    logging.getLogger("some.library").warning("%d", CANARY)
    assert CANARY not in stream.getvalue() + capsys.readouterr().err


def test_configuring_twice_does_not_double_the_lines() -> None:
    configured()
    stream = configured()
    logging.getLogger("some.library").warning("once")
    structlog.get_logger("semrouter_memory").warning("once")
    assert len(written(stream)) == 2
