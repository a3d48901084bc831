"""Retrieval cases: what is known of a user, and what should be found for a query. Pure.

A line of a file is one user:

    {"user": "u-1",
     "memories": [{"id": "m1", "type": "semantic", "content": "...", "created_at": "2026-03-15T10:00:00Z"}, ...],
     "queries": [{"id": "q1", "kind": "direct", "text": "...", "history": [{"role": "user", "content": "..."}, ...],
                  "gold": ["m1"], "acceptable": ["m2"]}, ...]}

`gold` names the memories that belong into an answer to the query; none makes the query a negative one, for which nothing
should be injected. `acceptable` names those that are neither wanted nor wrong. `history`, `acceptable` and a memory's
`created_at` may be left out or null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from semrouter_memory.evaluation.cases import Case, each_of, message_of, one_of, text_of, texts_of, time_of
from semrouter_memory.model import MemoryType, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A memory as the file has it."""

    id: str
    type: MemoryType
    content: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuery:
    """One query of a user.

    Attributes:
        kind: what the figures are grouped by.
        history: the conversation before it, oldest first.
        gold: ids of the memories that are wanted.
        acceptable: ids of those that are neither wanted nor wrong.
    """

    id: str
    kind: str
    text: str
    history: tuple[Message, ...] = ()
    gold: frozenset[str]
    acceptable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalCase:
    """One line of a file."""

    name: str
    memories: tuple[Known, ...]
    queries: tuple[LabelledQuery, ...]


def user_of(case: Case) -> RetrievalCase:
    """Read one line.

    Raises:
        KeyError: a field is missing.
        ValueError: a type, role or time is none, an id is there twice, or a query names a memory that is not there.
        TypeError: a field has another form.
    """
    memories = each_of(case, "memories", _known)
    _require_unique("memories", [memory.id for memory in memories])
    known = frozenset(memory.id for memory in memories)
    queries = each_of(case, "queries", lambda query: _query(query, known))
    _require_unique("queries", [query.id for query in queries])
    return RetrievalCase(name=text_of(case, "user"), memories=memories, queries=queries)


def _known(case: Case) -> Known:
    return Known(
        id=text_of(case, "id"),
        type=one_of(MemoryType, case, "type"),
        content=text_of(case, "content"),
        created_at=None if case.get("created_at") is None else time_of(case, "created_at"),
    )


def _query(case: Case, known: frozenset[str]) -> LabelledQuery:
    return LabelledQuery(
        id=text_of(case, "id"),
        kind=text_of(case, "kind"),
        text=text_of(case, "text"),
        history=each_of(case, "history", message_of) if case.get("history") is not None else (),
        gold=_ids(case, "gold", known),
        acceptable=_ids(case, "acceptable", known) if case.get("acceptable") is not None else frozenset(),
    )


def _ids(case: Case, name: str, known: frozenset[str]) -> frozenset[str]:
    ids = texts_of(case, name)
    unknown = next((each for each in ids if each not in known), None)
    if unknown is not None:
        raise ValueError(f"{name}: there is no memory {unknown!r}")
    return frozenset(ids)


def _require_unique(name: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for at, each in enumerate(ids):
        if each in seen:
            raise ValueError(f"{name}[{at}].id: {each!r} is there twice")
        seen.add(each)
