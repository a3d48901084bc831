"""Fixtures of all suites. A missing service skips on a laptop and fails in CI; see the fixture modules."""

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = (
    "tests.model_fixture",
    "tests.run_servers",
    "tests.milvus_server",
    "tests.retaining",
    "tests.chat_server",
    "tests.redis_server",
    "tests.stepped_time",
)

# How long an example takes says how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_ORDER = ("unit", "faults", "envoy", "component", "contract", "property")
"""Files go to the workers in this order. Servers run while they are needed, and small files are left for the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {suite: place for place, suite in enumerate(_ORDER)}
    items.sort(key=lambda item: places.get(item.nodeid.split("/")[1], len(places)))
