"""Fixtures of all suites. A missing service skips on a laptop and fails in CI; see the fixture modules."""

import gc

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.examples import examples

pytest_plugins = (
    "tests.model_fixture",
    "tests.fork_server",
    "tests.run_servers",
    "tests.milvus_server",
    "tests.retaining",
    "tests.chat_server",
    "tests.redis_server",
    "tests.stepped_time",
)

# How long an example takes says how busy the machine is.
settings.register_profile(
    "unhurried", max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

_LONGEST = (
    "envoy/test_replicas",
    "faults/test_servers",
    "envoy/test_chains",
    "envoy/test_failures",
    "envoy/test_lifecycle",
    "faults/test_disk",
    "envoy/test_owner_index",
    "contract/test_memory_store",
    "component/test_reembed",
)
_ORDER = (*_LONGEST, "faults", "envoy", "component", "contract", "unit", "property")
"""Files go to the workers in this order: a long one that began last would be waited for by all workers but one."""


# Thousands of tests and all modules stay to the end: garbage collections need not look at them again and again.
gc.disable()


@pytest.fixture(autouse=True)
def logging_as_at_the_start() -> None:
    """What another test of this worker configured, or an installation in this process that still runs, logs nothing away."""
    structlog.reset_defaults()


def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.nodeid.removeprefix("tests/")
        return next((place for place, start in enumerate(_ORDER) if path.startswith(start)), len(_ORDER))

    items.sort(key=place)
