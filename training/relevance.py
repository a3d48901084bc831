"""The decision *relevant?*: which memories a request wants, if any."""

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from semrouter_memory.recall import relevance, wants
from training.fitting import Example, fit, left_out, read

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


_STRENGTH = 0.2
_FEWEST = 4
WANTS_CUT = 0.55
CUT = 0.28


def models() -> tuple[dict, dict]:
    """The weights of *wants?* and of *relevant?*.

    The second sees what the first says of people it was not fitted on, as it will in use.
    """
    known, backdrop = cases()
    asked = [_asked(case) for case in known]
    unseen = left_out(asked, strength=_STRENGTH, fewest=_FEWEST)
    rows = [
        Example(row, "yes" if wanted else "no", case.person)
        for case, odds in zip(known, unseen, strict=True)
        for row, wanted, counted in zip(
            rows_of(case, backdrop, _log_odds(odds["yes"])), case.wanted, case.counted, strict=True
        )
        if counted
    ]
    wanting = fit(asked, strength=_STRENGTH, fewest=_FEWEST)
    return wanting | {"cut": WANTS_CUT}, fit(rows, strength=100.0) | {"cut": CUT}


def _asked(case: Case) -> Example:
    question = case.question
    words = wants.words_of(case.text, case.history)
    meaning = wants.meaning_of(question.vector, question.intent, personal=question.personal, impersonal=question.impersonal)
    return Example({**words, **meaning}, "yes" if case.wanted.any() else "no", case.person)


def rows_of(case: Case, backdrop: Anchors, odds: float) -> list[dict[str, float]]:
    """What relevance is made of, a row a memory.

    Args:
        odds: log-odds that the request wants anything.
    """
    question = replace(case.question, wants=odds)
    needs = relevance.needed(case.evidence, question)
    found = relevance.scores(case.evidence, question, needs)
    columns = relevance.features(found, question, backdrop, needs=needs)
    table = {name: np.broadcast_to(column, found.shape) for name, column in columns.items()}
    return [{name: float(column[row]) for name, column in table.items()} for row in range(len(found))]


def _log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


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
        said = vector if search_text(text, history, max_chars=bound) == " ".join(text.split()) else await embedder.embed_query(" ".join(text.split()))
        asked = wording(search_query(text, history, max_chars=bound), text, history)
        hits = [Hit(memory, similarity, similarity) for memory, each in zip(memories, vectors, strict=True) for similarity in [float(each @ vector)]]
        shelf = found.found(hits)
        now = _time(request["at"])
        columns = gathered(shelf, shelf.positions(_SCOPE), asked, period_of(text, now))
        ordered = [shelf.memory(place) for place in range(len(shelf))]
        fine = set(request.get("fine", ()))
        by_id = {memory.id: each for memory, each in zip(memories, vectors, strict=True)}
        cases.append(
            Case(
                person["person"], request["kind"], text, history,
                asked.meant(vector, known.intent(said)), columns.compared(shelf, vector), ordered,
                np.array([memory.id in request["wants"] for memory in ordered]),
                np.array([memory.id not in fine for memory in ordered]),
                np.stack([by_id[memory.id] for memory in ordered]),
            )
        )
    return cases


def _memory(each: dict) -> Memory:
    at = _time(each["at"])
    return Memory(
        id=each["id"], scope=_SCOPE, type=MemoryType.SEMANTIC, content=each["text"], source="conversation",
        observed_at=at, created_at=at, updated_at=at, metadata={FORM: "quote"} if each["form"] == "quote" else {},
    )


def _time(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
