"""What a connection makes of the server's version."""

import pytest

from semrouter_memory.store.collection import can_search_words, can_upsert_with_key


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v2.3.5-lite", False),
        ("2.3.12", False),
        ("v2.4.0", True),
        ("v2.10.1", True),
        ("3.0", True),
        ("Zilliz Cloud Vector Database(Compatible with Milvus 2.5)", True),
        ("", True),
    ],
)
def test_servers_before_2_4_are_not_trusted_with_an_upsert(version: str, *, expected: bool) -> None:
    assert can_upsert_with_key(version) is expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v2.3.5-lite", False),
        ("v2.4.23", False),
        ("v2.5.0", True),
        ("2.10.1", True),
        ("v3.0-beta", True),
        ("", True),
    ],
)
def test_servers_from_2_5_on_are_asked_for_words(version: str, *, expected: bool) -> None:
    assert can_search_words(version) is expected
