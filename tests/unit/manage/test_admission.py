"""What may be stored through the API."""

from typing import Any

import pytest

from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.admission import AdmissionPolicy, merged_json
from semrouter_memory.retain.redact import Redaction, SecretKind


def redact(text: str) -> Redaction:
    return Redaction(text, (SecretKind.PASSWORD,) if "hunter2" in text else ())


def policy(*, max_content_chars: int = 20) -> AdmissionPolicy:
    config = ManagementConfig(max_content_chars=max_content_chars, max_metadata_bytes=256)
    return AdmissionPolicy(config, redact=redact)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_content_is_stored_without_its_outer_white_space() -> None:
    assert policy(max_content_chars=18).content("  User lives in Köln\n") == "User lives in Köln"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "blank"),
        (" \n\t", "blank"),
        ("x" * 21, "longer than 20"),
        ("a\x00b", "no text"),
        ("a\ud800b", "no text"),
        ("pass is hunter2", "a password"),
    ],
)
def test_content_that_is_refused(content: str, complaint: str) -> None:
    with pytest.raises(InvalidRequestError, match=complaint) as caught:
        policy().content(content)
    assert caught.value.field == "content"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"origin": "crm", "tags": ["a", 1, 1.5, None, True], "deep": {"er": {"": []}}},
        {"smallest": -(2**63), "largest": 2**63 - 1},
        nested(16),
    ],
)
def test_metadata_that_is_admitted(metadata: dict[str, Any]) -> None:
    policy().check_metadata(metadata)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"turn_ids": ["t1"]}, "set by the service"),
        ({"model": "mine"}, "set by the service"),
        ({"a": "x" * 256}, "larger than 256"),
        ({"a": [0] * 129}, "larger than 256"),
        ({"ключ" * 33: 1}, "larger than 256"),
        (nested(17), "nested deeper"),
        ({"a": float("nan")}, "does not know"),
        ({"a": [float("inf")]}, "does not know"),
        ({"a": 2**63}, "64 bits"),
        ({"a": "\ud800"}, "no text"),
        ({"\x00": 1}, "no text"),
        ({"a": [{"b": "hunter2"}]}, "a password"),
        ({"hunter2": 1}, "a password"),
    ],
)
def test_metadata_that_is_refused(metadata: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequestError, match=complaint) as caught:
        policy().check_metadata(metadata)
    assert (caught.value.field or "").startswith("metadata")


@pytest.mark.parametrize(
    ("old", "changes", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": {"b": "c", "d": 1}}, {"a": {"b": "e"}}, {"a": {"b": "e", "d": 1}}),
        ({"a": [{"b": "c"}]}, {"a": [1, None]}, {"a": [1, None]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_metadata_is_merged_as_rfc_7396_says(
    old: dict[str, Any], changes: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert merged_json(old, changes) == merged
