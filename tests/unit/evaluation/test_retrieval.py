"""Retrieval cases: how a line is read, and what a complaint about one says."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.errors import InputFileError
from semrouter_memory.evaluation.cases import CaseMessage, case_of, read_cases
from semrouter_memory.evaluation.retrieval import RetrievalCase
from semrouter_memory.model import MemoryType, Role

LINE: dict[str, Any] = {
    "user": "u-1",
    "memories": [
        {
            "id": "m1",
            "type": "semantic",
            "content": "User likes tea",
            "created_at": "2026-03-15T10:00:00+02:00",
        },
        {"id": "m2", "type": "episodic", "content": "User went to Quito", "created_at": None},
        {"id": "m3", "type": "procedural", "content": "To deploy, run make"},
    ],
    "queries": [
        {
            "id": "q1",
            "kind": "vague",
            "text": "and then?",
            "history": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
            "gold": ["m1", "m3"],
            "acceptable": ["m2"],
        },
        {"id": "q2", "kind": "negative", "text": "2 + 2?", "gold": [], "history": None, "acceptable": None},
        {"id": "q3", "kind": "direct", "text": "tea?", "gold": ["m1"]},
    ],
}


def test_a_line_is_a_user_with_memories_and_queries() -> None:
    user = case_of(RetrievalCase, LINE)
    assert [(memory.id, memory.type) for memory in user.memories] == [
        ("m1", MemoryType.SEMANTIC),
        ("m2", MemoryType.EPISODIC),
        ("m3", MemoryType.PROCEDURAL),
    ]
    query = user.queries[0]
    assert (query.gold, query.acceptable) == (frozenset({"m1", "m3"}), frozenset({"m2"}))
    assert query.history == (CaseMessage(Role.USER, "hi"), CaseMessage(Role.ASSISTANT, "hello"))


def test_a_time_is_read_as_utc_and_may_be_missing() -> None:
    assert [memory.created_at for memory in case_of(RetrievalCase, LINE).memories] == [
        datetime(2026, 3, 15, 8, tzinfo=UTC),
        None,
        None,
    ]


def test_history_and_acceptable_may_be_null_or_left_out() -> None:
    for query in case_of(RetrievalCase, LINE).queries[1:]:
        assert (query.history, query.acceptable) == ((), frozenset())


def _memory(**change: Any) -> Callable[[Any], None]:
    return lambda line: line["memories"][1].update(change)


def _query(**change: Any) -> Callable[[Any], None]:
    return lambda line: line["queries"][1].update(change)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda line: line.pop("user"), "user: Field required"),
        (lambda line: line.update(user=7), "user: Input should be a valid string"),
        (lambda line: line.pop("memories"), "memories: Field required"),
        (lambda line: line.update(queries={}), "queries: Input should be a list"),
        (lambda line: line["memories"][1].pop("content"), "memories[1].content: Field required"),
        (
            _memory(type="fancy"),
            "memories[1].type: Input should be 'semantic', 'procedural', 'episodic' or 'reflective'",
        ),
        (_memory(created_at="soon"), "memories[1].created_at: must be a time"),
        (_memory(created_at=1), "memories[1].created_at: must be a time"),
        (_memory(id="m1"), "memories[1].id: 'm1' is there twice"),
        (_query(id="q1"), "queries[1].id: 'q1' is there twice"),
        (lambda line: line["queries"][1].pop("gold"), "queries[1].gold: Field required"),
        (_query(gold=["m9"]), "queries[1].gold: there is no memory 'm9'"),
        (_query(gold="m1"), "queries[1].gold: Input should be a valid frozenset"),
        (_query(acceptable=["m9"]), "queries[1].acceptable: there is no memory 'm9'"),
        (
            _query(history=[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]),
            "queries[1].history[1].role: Input should be 'user' or 'assistant'",
        ),
        (_query(history=[{"role": "user"}]), "queries[1].history[0].content: Field required"),
    ],
)
def test_a_complaint_names_file_line_and_field(spoil: Callable[[Any], object], complaint: str, tmp_path: Path) -> None:
    path, spoilt = tmp_path / "set.jsonl", copy.deepcopy(LINE)
    spoil(spoilt)
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps(spoilt)}\n")
    with pytest.raises(InputFileError) as raised:
        read_cases(path, RetrievalCase)
    assert str(raised.value).startswith(f"{path}, line 2: {complaint}")
