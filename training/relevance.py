"""The decision *relevant?*: which memories a request wants, if any."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from semrouter_memory.config import EmbeddingConfig, RecallConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.lexical.voice import embedded_text
from semrouter_memory.model import FORM, Hit, Memory, MemoryType, Message, Role, Scope
from semrouter_memory.recall import anchors, found
from semrouter_memory.recall.anchors import Anchors
from semrouter_memory.recall.evidence import Evidence, Question, gathered, wording
from semrouter_memory.recall.query import search_query, search_text
from semrouter_memory.recall.times import period_of
from training.fitting import read

MODEL = Path(os.environ.get("SEMROUTER_MEMORY_MODEL", Path(__file__).parents[1] / ".cache" / "model"))
_SCOPE = Scope("training")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One request, with what is known of each memory.

    Attributes:
        wanted: which of them the request wants.
        counted: which are not in between.
    """

    person: str
    kind: str
    text: str
    history: Sequence[Message]
    question: Question
    evidence: Evidence
    memories: Sequence[Memory]
    wanted: np.ndarray
    counted: np.ndarray
    vectors: np.ndarray


def cases(*, held_out: bool = False) -> tuple[list[Case], Anchors]:
    """Every labelled request, as recall sees it."""
    return asyncio.run(_cases(held_out=held_out))


async def _cases(*, held_out: bool) -> tuple[list[Case], Anchors]:
    embedder = OnnxEmbedder.load(EmbeddingConfig(), MODEL)
    people = read("requests.jsonl", held_out=held_out)
    known = await anchors.embedded(embedder)
    return [case for person in people for case in await _of_person(embedder, known, person)], known


async def _of_person(embedder: OnnxEmbedder, known: Anchors, person: dict) -> list[Case]:
    memories = [_memory(each) for each in person["memories"]]
    vectors = await embedder.embed_passages([embedded_text(memory) for memory in memories])
    bound = RecallConfig().max_query_chars
    cases = []
    for request in person["requests"]:
        text = request["text"]
        history = tuple(Message(Role(role), said) for role, said in request["history"])
        vector = await embedder.embed_query(search_text(text, history, max_chars=bound))
        said = (
            vector
            if search_text(text, history, max_chars=bound) == " ".join(text.split())
            else await embedder.embed_query(" ".join(text.split()))
        )
        asked = wording(search_query(text, history, max_chars=bound), text, history)
        hits = [
            Hit(memory, similarity, similarity)
            for memory, each in zip(memories, vectors, strict=True)
            for similarity in [float(each @ vector)]
        ]
        shelf = found.found(hits)
        now = _time(request["at"])
        columns = gathered(shelf, shelf.positions(_SCOPE), asked, period_of(text, now))
        ordered = [shelf.memory(place) for place in range(len(shelf))]
        fine = set(request.get("fine", ()))
        by_id = {memory.id: each for memory, each in zip(memories, vectors, strict=True)}
        cases.append(
            Case(
                person["person"],
                request["kind"],
                text,
                history,
                asked.meant(vector, known.intent(said)),
                columns.compared(shelf, vector),
                ordered,
                np.array([memory.id in request["wants"] for memory in ordered]),
                np.array([memory.id not in fine for memory in ordered]),
                np.stack([by_id[memory.id] for memory in ordered]),
            )
        )
    return cases


def _memory(each: dict) -> Memory:
    at = _time(each["at"])
    return Memory(
        id=each["id"],
        scope=_SCOPE,
        type=MemoryType.SEMANTIC,
        content=each["text"],
        source="conversation",
        observed_at=at,
        created_at=at,
        updated_at=at,
        metadata={FORM: "quote"} if each["form"] == "quote" else {},
    )


def _time(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
