"""The order in which the files of tests go to the workers. Used as a pytest plugin."""

import pytest

ON_THE_RUNS_MILVUS = (
    "tests/envoy/test_replicas.py",
    "tests/contract/test_memory_store.py",
    "tests/component/test_reembed.py",
    "tests/contract/test_owners_apart.py",
    "tests/component/test_milvus_collection.py",
    "tests/component/test_milvus_write_ahead.py",
    "tests/component/test_doctor.py",
)
"""They come first, as the server ends with them: it takes a quarter of a processor even when it is idle."""
_LONGEST = (
    "tests/faults/test_servers",
    "tests/envoy/test_chains",
    "tests/envoy/test_owner_index",
    "tests/envoy/test_failures",
    "tests/envoy/test_lifecycle",
    "tests/faults/test_disk",
)
"""One that began last would be waited for by all workers but one."""
_SUITES = ("tests/faults", "tests/envoy", "tests/component", "tests/contract", "tests/unit", "tests/property")
_ORDER = (*ON_THE_RUNS_MILVUS, *_LONGEST, *_SUITES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((place for place, start in enumerate(_ORDER) if item.nodeid.startswith(start)), len(_ORDER))

    items.sort(key=place)
