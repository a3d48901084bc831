"""Fixtures of all suites. A missing service skips on a laptop and fails in CI; see the fixture modules."""

from hypothesis import HealthCheck, settings

pytest_plugins = (
    "tests.model_fixture",
    "tests.milvus_server",
    "tests.retaining",
    "tests.chat_server",
    "tests.redis_server",
    "tests.stepped_time",
)

# How long an example takes says how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
