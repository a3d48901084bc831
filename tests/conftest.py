"""Fixtures of all suites. A missing service skips on a laptop and fails in CI; see the fixture modules."""

pytest_plugins = (
    "tests.model_fixture",
    "tests.milvus_server",
    "tests.retaining",
    "tests.chat_server",
    "tests.redis_server",
)
