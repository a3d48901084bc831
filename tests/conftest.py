"""Fixtures of all suites. A missing service skips on a laptop and fails in CI; see the fixture modules."""

import gc
import logging
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest
import structlog
import typer.testing
from hypothesis import HealthCheck, settings

from tests.examples import examples

pytest_plugins = (
    "tests.file_order",
    "tests.model_fixture",
    "tests.fork_server",
    "tests.run_servers",
    "tests.milvus_server",
    "tests.retaining",
    "tests.chat_server",
    "tests.redis_server",
    "tests.short_polls",
    "tests.stepped_time",
)

# How long an example takes says how busy the machine is.
settings.register_profile(
    "unhurried", max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


# It builds all commands anew for each one that a test runs, which takes longer than most of them do.
_command_lines: Any = typer.testing
_command_lines._get_command = cache(_command_lines._get_command)


# Its clients give up after 5 s where nothing else is said, which a busy machine may take.
_timeouts: Any = httpx._config.DEFAULT_TIMEOUT_CONFIG
_timeouts.read = 60


# Thousands of tests and all modules stay to the end: garbage collections need not look at them again and again.
gc.disable()


def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def default_logging() -> Iterator[None]:
    """Logging is global: a test finds it as it is at the start, whatever other tests or their installations configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog.reset_defaults()
    yield
    root.handlers[:], root.level, logging.raiseExceptions = handlers, level, True


@pytest.fixture(autouse=True)
def default_interpreter() -> Iterator[None]:
    """`serve` loads without garbage collections, and a test that sees it refuse to start goes on to the next test."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.enable()
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)
