"""The decisions *wants?* and *relevant?*: whether a request wants memories, and which."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from semrouter_memory.config import RecallConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.language.words import tokens
from semrouter_memory.learned import Logistic, components, log_odds
from semrouter_memory.model import FORM, Criteria, EmbeddedMemory, Memory, MemoryType, Message, Role, Scope
from semrouter_memory.recall import relevance, wants
from semrouter_memory.recall.categories import categories_of
from semrouter_memory.recall.features import CandidateFeatures, QueryFeatures
from semrouter_memory.recall.prototypes import Intent, Prototypes, embed_prototypes
from semrouter_memory.recall.query import Query
from semrouter_memory.store.owner_index import build_index
from training import fitting
from training.fitting import Example, fit, left_out, read

WANTS_CUT = 0.48
CUT = 0.32
_STRENGTH = 0.4
_FEWEST = 3
_COSINES = (0.2, 0.6, 1.0)
_FIRST = 5
SCOPE = Scope("training")
_OTHERS = 10
_EVERY = 3
"""Every so many requests are asked a second time, of an owner who has the memories of so many others as well: how sure a
memory must be depends on how many there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One request, with what is known of each memory.

    Attributes:
        wanted: which of them the request wants.
        counted: which are not in between.
        others: the memories of other people are among them.
    """

    person: str
    kind: str
    text: str
    history: Sequence[Message]
    question: QueryFeatures
    candidates: CandidateFeatures
    wanted: np.ndarray
    counted: np.ndarray
    others: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    features: QueryFeatures
    vector: np.ndarray
    intent: Intent
    history: Sequence[Message]


def models() -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights of *wants?* and of *relevant?*.

    The second sees what the first says of people it was not fitted on, as it will in use.
    """
    known, background = cases()
    constants = {relevance.CHINESE_COSINE: chinese_cosine(known)}
    # The features are computed with it, too.
    Logistic.load("relevance").constants = constants
    asked = [_asked(case) for case in known if not case.others]
    unseen = left_out(asked, strength=_STRENGTH, fewest=_FEWEST)
    requests = dict.fromkeys((each.person, each.text) for each in known if not each.others)
    odds = dict(zip(requests, (log_odds(each["yes"]) for each in unseen), strict=True))
    rows = [
        Example(row, "yes" if wanted else "no", case.person)
        for case in known
        for row, wanted, counted in zip(
            rows_of(case, background, odds[case.person, case.text]), case.wanted, case.counted, strict=True
        )
        if counted
    ]
    wanting = fit(asked, strength=_STRENGTH, fewest=_FEWEST)
    return wanting | {"cut": WANTS_CUT}, fit(rows, strength=100.0) | {"cut": CUT, "constants": constants}


def chinese_cosine(known: Sequence[Case]) -> float:
    """What a cosine is worth to Chinese questions: with which value they have most of what they want among the first."""
    asked = [case for case in known if case.question.chinese and case.wanted.any()]
    return max(_COSINES, key=lambda worth: sum(_found_first(case, worth) for case in asked))


def _found_first(case: Case, worth: float) -> float:
    """The share of what is wanted that is among the first."""
    Logistic.load("relevance").constants = {relevance.CHINESE_COSINE: worth}
    needs = relevance.needed(case.candidates, case.question)
    first = np.argsort(-relevance.score(case.candidates, case.question, needs), kind="stable")[:_FIRST]
    return float(case.wanted[first].sum() / case.wanted.sum())


def _asked(case: Case) -> Example:
    question = case.question
    known = case.candidates.known_names
    form = {"impersonal": question.impersonal, "chinese": question.chinese}
    features = {
        **wants.words_of(case.text, case.history, chinese=question.chinese),
        **({} if question.chinese else components(question.vector)),
        **wants.nearness_of(question.intent, personal=question.personal, **form),
        **wants.names_of(known, len(question.names) - known, **form, needs=bool(question.need)),
    }
    return Example(features, "yes" if case.wanted.any() else "no", case.person)


def rows_of(case: Case, background: Prototypes, odds: float) -> list[dict[str, float]]:
    """What relevance is made of, a row a memory.

    Args:
        odds: log-odds that the request wants anything.
    """
    question = replace(case.question, wants=odds)
    needs = relevance.needed(case.candidates, question)
    scores = relevance.score(case.candidates, question, needs)
    columns = relevance.features(scores, question, background, needs=needs)
    table = {name: np.broadcast_to(column, scores.shape) for name, column in columns.items()}
    return [{name: float(column[row]) for name, column in table.items()} for row in range(len(scores))]


def cases(*, held_out: bool = False) -> tuple[list[Case], Prototypes]:
    """Every labelled request, as recall sees it."""
    return asyncio.run(_cases(read("requests.jsonl", held_out=held_out)))


async def _cases(people: Sequence[Mapping[str, Any]]) -> tuple[list[Case], Prototypes]:
    embedder = fitting.embedder()
    known, common = await embed_prototypes(embedder), _common()
    remembered = [await embedded_memories(embedder, person) for person in people]
    cases_of_all = []
    for place, person in enumerate(people):
        alike = [each for each, other in enumerate(people) if other["language"] == person["language"]]
        at = alike.index(place)
        others = (*alike[at + 1 :], *alike[:at])[:_OTHERS]
        many = [*remembered[place], *(each for other in others for each in remembered[other])]
        for number, request in enumerate(person["requests"]):
            asked = await _asking(embedder, known, request, common)
            cases_of_all.append(_case(person["person"], request, asked, remembered[place], others=False))
            if number % _EVERY == 0:
                cases_of_all.append(_case(person["person"], request, asked, many, others=True))
    return cases_of_all, known


async def embedded_memories(embedder: OnnxEmbedder, person: Mapping[str, Any]) -> list[EmbeddedMemory]:
    memories = [_memory(person["person"], each) for each in person["memories"]]
    vectors = await embedder.embed_passages([embedded_text(memory) for memory in memories])
    return [EmbeddedMemory(*each) for each in zip(memories, vectors, strict=True)]


async def _asking(
    embedder: OnnxEmbedder, known: Prototypes, request: Mapping[str, Any], common: Collection[str]
) -> _Asked:
    said, history = request["text"], tuple(Message(Role(role), text) for role, text in request["history"])
    bound, now = RecallConfig().max_query_chars, _time(request["at"])
    query = Query(text=said, history=history, now=now, max_chars=bound)
    vector = await embedder.embed_query(query.search_text)
    alone = vector if not history else await embedder.embed_query(replace(query, history=()).search_text)
    # The model that is fitted here will know other words than the last one.
    features = QueryFeatures.of(query)
    if not features.chinese:
        features = replace(features, names=wants.rare(said, common))
    return _Asked(features, vector, known.intent(alone), history)


def _common() -> frozenset[str]:
    """The words that the model will have weights for."""
    askers: dict[str, set[str]] = {}
    for person in read("requests.jsonl"):
        for request in person["requests"]:
            for token in tokens(request["text"]):
                askers.setdefault(token, set()).add(person["person"])
    return frozenset(token for token, people in askers.items() if len(people) >= _FEWEST)


def _case(
    person: str,
    request: Mapping[str, Any],
    asked: _Asked,
    remembered: Sequence[EmbeddedMemory],
    *,
    others: bool,
) -> Case:
    index = build_index(SCOPE.owner, remembered, label=categories_of)
    candidates = CandidateFeatures.of(index, index.positions(Criteria(SCOPE)), asked.features)
    ids = [index.memory(position).id for position in range(len(index))]
    wanted = {f"{person} {each}" for each in request["wants"]}
    fine = {f"{person} {each}" for each in request.get("fine", ())}
    return Case(
        person,
        request["kind"],
        request["text"],
        asked.history,
        asked.features.embedded(asked.vector, asked.intent, known_names=candidates.known_names),
        candidates.compared(asked.vector),
        np.array([each in wanted for each in ids]),
        np.array([each not in fine for each in ids]),
        others,
    )


def _memory(person: str, each: Mapping[str, Any]) -> Memory:
    at = _time(each["at"])
    return Memory(
        id=f"{person} {each['id']}",
        scope=SCOPE,
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
