"""The decision *passage?*: whether a request asks for a passage of an organisation's documents, and for which."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from semrouter_memory.config import RecallConfig
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import CONTEXT, FORM, Hit, Memory, MemoryType, Message, OwnerKind, Role, Scope
from semrouter_memory.recall.documents import FETCHED, features
from semrouter_memory.recall.query import Query
from training import fitting
from training.fitting import Example, fit, read

CUT = 0.12
_STRENGTH = 1.0
_BEST = 5
"""Passages of a request that are examples: others are never candidates."""
_EVERY = 26
"""Of so many requests for something else one is asked: otherwise they would outweigh the questions by a hundred to one."""
_SCOPE = Scope("training", kind=OwnerKind.ORGANISATION)
_NOW = datetime(2026, 11, 1, tzinfo=UTC)


def model() -> dict[str, Any]:
    return fit(examples(), strength=_STRENGTH) | {"cut": CUT}


def examples() -> list[Example]:
    """The best passages of every question, and of requests that ask for something else: of people, and of the world."""
    return asyncio.run(_examples(read("documents.jsonl"), read("requests.jsonl")))


async def _examples(documents: Sequence[Mapping[str, Any]], people: Sequence[Mapping[str, Any]]) -> list[Example]:
    embedder = fitting.embedder()
    passages = [passage for document in documents for passage in _passages(document)]
    vectors = np.stack(await embedder.embed_passages([embedded_text(passage) for passage in passages]))
    found: list[Example] = []
    for asker, query, wanted in _asked(documents, people):
        similarities = vectors @ await embedder.embed_query(query.search_text)
        nearest = np.argsort(-similarities)[:FETCHED]
        hits = [Hit(passages[at], float(similarities[at]), float(similarities[at])) for at in nearest]
        rows = sorted(zip(features(hits, query), hits, strict=True), key=lambda row: -row[0]["behind"])
        for row, hit in rows[:_BEST]:
            found.append(Example(row, "yes" if hit.memory.content == wanted else "no", asker))
    return found


def _asked(
    documents: Sequence[Mapping[str, Any]], people: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Query, str]]:
    """Who asks what, and the passage that it asks for; "" for none."""
    for document in documents:
        for passage in document["passages"]:
            for question in passage["questions"]:
                yield document["person"], _query(question, ()), passage["text"]
    for person in people:
        for request in person["requests"][::_EVERY]:
            history = tuple(Message(Role(role), text) for role, text in request["history"])
            yield person["person"], _query(request["text"], history), ""


def _query(text: str, history: Sequence[Message]) -> Query:
    return Query(text=text, history=history, now=_NOW, max_chars=RecallConfig().max_query_chars)


def _passages(document: Mapping[str, Any]) -> Iterator[Memory]:
    for number, passage in enumerate(document["passages"]):
        yield Memory(
            id=f"{document['person']} {number}",
            scope=_SCOPE,
            type=MemoryType.SEMANTIC,
            content=passage["text"],
            source="training",
            observed_at=_NOW,
            created_at=_NOW,
            updated_at=_NOW,
            metadata={FORM: "passage", CONTEXT: document["title"]},
        )
