"""The order in which the files of tests go to the workers. Used as a pytest plugin."""

import pytest

ON_THE_RUNS_MILVUS = (
    "tests/envoy/test_replicas.py",
    "tests/envoy/test_processes.py",
    "tests/contract/test_memory_store.py",
    "tests/component/test_reembed.py",
    "tests/contract/test_owners_apart.py",
    "tests/component/test_milvus_collection.py",
    "tests/component/test_milvus_write_ahead.py",
    "tests/component/test_doctor.py",
)
"""They come first, each with those of its tests that need the server, which ends then: it takes a quarter of a processor even
when it is idle."""
_LONGEST = (
    "tests/faults/test_servers",
    "tests/envoy/test_owner_index",
    "tests/envoy/test_chains",
    "tests/faults/test_disk",
    "tests/envoy/test_lifecycle",
    "tests/envoy/test_failures",
)
"""One that began last would be waited for by all workers but one."""
_WAITING = (*_LONGEST, "tests/faults", "tests/envoy")
"""They mostly wait for processes that they have started. The others keep a processor busy, and come in between."""
_WAITING_SHARE = 0.9
"""At the end are short files alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = list(dict.fromkeys(_file(item) for item in items))
    waiting = sorted((file for file in files if file.startswith(_WAITING)), key=lambda file: _place(file, _WAITING))
    busy = [file for file in files if not file.startswith(_WAITING)]
    order = {file: _WAITING_SHARE * number / len(waiting) for number, file in enumerate(waiting)}
    order |= {file: number / len(busy) for number, file in enumerate(busy)}
    first = len(ON_THE_RUNS_MILVUS)
    order |= {file: number - first for number, file in enumerate(ON_THE_RUNS_MILVUS)}
    items.sort(key=lambda item: order[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _place(file: str, starts: tuple[str, ...]) -> int:
    return next(place for place, start in enumerate(starts) if file.startswith(start))
