"""The JSON of the API."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from semrouter_memory.manage.schemas import HitJson, MemoryJson, SearchRequest, StoreRequest, UpdateRequest
from semrouter_memory.model import Episode, Hit, Json, Memory, MemoryType, Scope, Usage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_every_field_of_a_memory_is_shown() -> None:
    memory = Memory(
        id="m1",
        scope=Scope("alice", "trip"),
        type=MemoryType.EPISODIC,
        content="User went to Hawaii",
        source="conversation",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        session_id="ses_1",
        metadata={"turn_ids": ["t1"], **Episode(goal="Rest", steps=("fly", "swim"), lessons=("Stay longer",)).metadata},
    )
    assert MemoryJson.of(memory, {"m1": Usage(7, NOW), "m2": Usage(1, NOW)}).model_dump(mode="json") == {
        "id": "m1",
        "type": "episodic",
        "form": "statement",
        "content": "User went to Hawaii",
        "owner": "user:alice",
        "project_id": "trip",
        "session_id": "ses_1",
        "within_session": "",
        "promote": False,
        "source": "conversation",
        "observed_at": "2026-03-01T12:00:00Z",
        "created_at": "2026-03-01T12:00:00Z",
        "updated_at": "2026-03-01T12:00:00Z",
        "superseded_at": None,
        "superseded_by": None,
        "expires_at": None,
        "importance": 0.5,
        "pinned": False,
        "category": "",
        "flagged": False,
        "contradicts": [],
        "access_count": 7,
        "last_accessed_at": "2026-03-01T12:00:00Z",
        "context": "",
        "statements": [],
        "goal": "Rest",
        "steps": ["fly", "swim"],
        "outcome": "",
        "lessons": ["Stay longer"],
        "quote": None,
        "metadata": {
            "turn_ids": ["t1"],
            "episode": {"goal": "Rest", "steps": ["fly", "swim"], "outcome": "", "lessons": ["Stay longer"]},
        },
    }
    never, unknown = MemoryJson.of(memory, {}), MemoryJson.of(memory)
    assert (never.access_count, never.last_accessed_at) == (0, None)
    assert (unknown.access_count, unknown.last_accessed_at) == (None, None)


@pytest.mark.parametrize("category", ["work", 5, ["work"], {"of": "work"}, True, None, 'say "work"'])
def test_a_search_shows_a_memory_as_a_list_does(category: Json) -> None:
    """Callers may call anything in their metadata a category."""
    memory = Memory(
        id="m1",
        scope=Scope("alice"),
        type=MemoryType.SEMANTIC,
        content="User went to Hawaii",
        source="api",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        metadata={"category": category, "flagged": True, "contradicts": ["m2"]},
    )
    listed = MemoryJson.of(memory, {"m1": Usage(7, NOW)}).model_dump(mode="json")
    found = HitJson.of_hit(Hit(memory, 0.7, 0.9), {"m1": Usage(7, NOW)})
    assert found.model_dump(mode="json", warnings="error") == {**listed, "similarity": 0.7, "relevance": 0.9}


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ({}, {}),
        ({"content": "x"}, {"content": "x"}),
        ({"project_id": ""}, {"project_id": ""}),
        ({"expires_at": None}, {"expires_at": None}),
        ({"type": "procedural", "importance": 1}, {"type": MemoryType.PROCEDURAL, "importance": 1.0}),
        ({"metadata": {"a": None}}, {"metadata": {"a": None}}),
    ],
)
def test_an_update_changes_what_was_sent_and_nothing_else(body: dict[str, Any], changes: dict[str, Any]) -> None:
    assert UpdateRequest.model_validate(body).changes() == changes


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (StoreRequest, {"content": ""}),
        (StoreRequest, {"content": None}),
        (StoreRequest, {"content": 7}),
        (StoreRequest, {"content": "x", "user_id": "bob"}),
        (StoreRequest, {"content": "x", "type": "wish"}),
        (StoreRequest, {"content": "x", "importance": 1.1}),
        (StoreRequest, {"content": "x", "importance": "1"}),
        (StoreRequest, {"content": "x", "metadata": []}),
        (UpdateRequest, {"content": None}),
        (UpdateRequest, {"id": "m2"}),
        (SearchRequest, {}),
        (SearchRequest, {"query": ""}),
        (SearchRequest, {"query": "x", "limit": 0}),
        (SearchRequest, {"query": "x", "limit": 101}),
        (SearchRequest, {"query": "x", "limit": True}),
        (SearchRequest, {"query": "x", "types": []}),
        (SearchRequest, {"query": "x", "threshold": 2}),
    ],
)
def test_bodies_that_are_refused(model: type[StoreRequest], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)
