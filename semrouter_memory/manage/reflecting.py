"""Answers a question from an owner's memories and documents: by a model, with citations, and without one by counting.

Strategy: what is relevant is searched for as everywhere else; only that is shown to the model, and its answer is held against it
(`reflect`). Whatever fails there, the counts are answered. A model may take seconds, so what was deleted meanwhile is looked for
before anything is answered.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from semrouter_memory.backends import Backends
from semrouter_memory.config import ReflectionConfig
from semrouter_memory.errors import ChatModelError, ModelUnavailableError
from semrouter_memory.events import CandidatesRefused
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.manage.admission import require_text
from semrouter_memory.manage.parameters import OneProject
from semrouter_memory.manage.schemas import MAX_HITS, ApiAnswer, ApiRequest, whole_number
from semrouter_memory.model import Criteria, Hit, Memory, Reach, Scope
from semrouter_memory.ports import ChatModel
from semrouter_memory.recall.render import cited_source
from semrouter_memory.recall.strategy import best_first
from semrouter_memory.recall.vector_search import VectorSearch
from semrouter_memory.reflect import (
    UNUSABLE,
    CheckedAnswer,
    Mentions,
    answer_prompt,
    checked_answer,
    counted,
    in_words,
    names_topic,
    naming,
    not_told,
    shares_word,
    within,
)
from semrouter_memory.retain.passages import whole

EXTRACTOR = "reflect"
MAX_SOURCES = 50


class ReflectRequest(ApiRequest):
    """A question about what is remembered."""

    question: Annotated[
        str,
        Field(
            min_length=1,
            description="In full words; bounded by `management.max_content_chars`.",
            examples=["What did I decide about the Hawaii trip?"],
        ),
    ]
    project_id: OneProject = None
    limit: Annotated[
        int,
        Field(ge=1, le=MAX_SOURCES, strict=True, description="At most so many sources."),
        BeforeValidator(whole_number),
    ] = 20


class ModelError(StrEnum):
    """Why no model's answer is given, although one is configured."""

    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    BUSY = "busy"
    """It answers as many questions as it may (`memory.reflection.max_concurrent`)."""
    UNUSABLE = UNUSABLE
    """Its answer cites no source, or one that does not exist."""
    NOT_IN_SOURCES = "not_in_sources"
    """Its answer has a number or a name that stands in no source."""
    DELETED = "source_deleted"
    """A source was deleted while it answered."""


_REFUSED = frozenset({ModelError.UNUSABLE, ModelError.NOT_IN_SOURCES})


class CitationJson(ApiAnswer):
    """A memory, or a passage of a document, that an answer cites."""

    number: int = Field(description="How the answer cites it: `[1]`.")
    id: str = Field(examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])
    owner: str = Field(examples=["user:alice"])
    content: str = Field(examples=["User's budget for the Hawaii trip is $10,000"])
    observed_at: datetime = Field(description="When it was said, or the document published.")
    document: str | None = Field(description="The source of the document; null for a memory.")

    @classmethod
    def of(cls, number: int, memory: Memory) -> "CitationJson":
        return cls(
            number=number,
            id=memory.id,
            owner=memory.scope.owner,
            content=memory.content,
            observed_at=memory.observed_at,
            document=cited_source(memory) if memory.form == "passage" else None,
        )


class MentionsJson(ApiAnswer):
    """How often it was mentioned, of the 100 most relevant memories."""

    times: int = Field(description="What was said again counts again.")
    first: datetime | None = Field(description="When first; null: never.")
    last: datetime | None = Field(description="When last.")
    passages: int = Field(description="Passages of documents that are about it.")


class Reflection(ApiAnswer):
    """An answer from what is remembered."""

    object: Literal["memory.reflection"] = "memory.reflection"
    answer: str = Field(description="In sentences, with citations.", examples=["Your budget is $10,000 [1]."])
    known: bool = Field(
        description="Whether what is remembered tells it; without a model, whether anything is about it."
    )
    citations: Sequence[CitationJson]
    counted: MentionsJson
    model: str | None = Field(description="The model that worded the answer; null: it is counted only.")
    model_error: ModelError | None = Field(
        description="Why the model's answer is not given; null: it is, or there is none."
    )


@dataclass(frozen=True, slots=True)
class _Relevant:
    """What is relevant: all of it, and the part of it that is shown to a model."""

    memories: Sequence[Memory]
    sources: Sequence[Memory]


@dataclass(slots=True, kw_only=True)
class Reflector:
    """Answers questions about one owner.

    Attributes:
        knowledge: documents; None: they are not searched.
        model: None: it is only counted.
        threshold: least relevance, as recall measures it.
        max_chars: bound on a question.

    `reflect` raises `UnavailableError` when the store, the turn log or the embedder is unavailable.
    """

    backends: Backends
    searcher: VectorSearch
    knowledge: KnowledgeService | None
    model: ChatModel | None
    config: ReflectionConfig
    threshold: float
    max_chars: int
    _asking: int = field(init=False, default=0)

    async def reflect(self, scope: Scope, organisation: Scope | None, asked: ReflectRequest) -> Reflection:
        """The answer to a question.

        Args:
            scope: of the owner, in the project that is asked for.
            organisation: whose documents are searched too.

        Raises:
            InvalidRequestError: the question is blank or too long.
        """
        require_text(asked.question, max_chars=self.max_chars, field="question")
        found = await self._found(scope, organisation, asked)
        if self.model is None or not found.sources:
            return _by_count(asked, found)
        answer = await self._answer(self.model, asked.question, found.sources)
        remaining = await self._remaining(found)
        if isinstance(answer, ModelError):
            return _by_count(asked, remaining, answer, known=answer not in _REFUSED)
        if remaining.sources != found.sources:
            return _by_count(asked, remaining, ModelError.DELETED)
        return _by_model(asked, found, answer, self.model.name)

    async def _found(self, scope: Scope, organisation: Scope | None, asked: ReflectRequest) -> _Relevant:
        hits = await self._of_memories(scope, asked)
        if self.knowledge is not None:
            owners = (scope.in_project(""), organisation)
            passages = await self.knowledge.search_all(owners, asked.question, limit=asked.limit)
            hits = best_first([*hits, *(hit for hit in passages if hit.relevance >= self.threshold)])
        memories = [hit.memory for hit in hits]
        most = memories[: asked.limit]
        return _Relevant(
            memories, within(most, self.config.token_budget, self.backends.embedder.count_tokens) if most else most
        )

    async def _of_memories(self, scope: Scope, asked: ReflectRequest) -> list[Hit]:
        reach = Reach.ALL if asked.project_id is None else Reach.EXACT
        criteria = Criteria(scope, reach=reach)
        found = await self._relevant(criteria, asked.question)
        return (await whole(self.backends.store, scope, found))[:MAX_HITS]

    async def _relevant(self, criteria: Criteria, question: str) -> list[Hit]:
        """What recall would find; of a topic ("deployment"), which asks nothing, what a search finds and the topic names."""
        for is_topic in (True, False) if names_topic(question) else (False,):
            hits = await self.searcher.search_fresh(criteria, question, limit=MAX_HITS, calibrated=not is_topic)
            deleted = await self.backends.turn_log.tombstones(criteria.scope)
            found = [hit for hit in hits if hit.relevance >= self.threshold and not deleted.covers(hit.memory)]
            if is_topic:
                found = [hit for hit in found if shares_word(question, hit.memory)]
            if found:
                return found
        return []

    async def _answer(self, model: ChatModel, question: str, sources: Sequence[Memory]) -> CheckedAnswer | ModelError:
        """The model's answer, checked, or why there is none."""
        if self._asking >= self.config.max_concurrent:
            return ModelError.BUSY
        self._asking += 1
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                answer = checked_answer(await model.complete(answer_prompt(question, sources)), sources)
        except TimeoutError:
            model.late()
            return ModelError.TIMEOUT
        except ChatModelError as error:
            return _failure(error)
        finally:
            self._asking -= 1
        if not answer.refused:
            return answer
        self.backends.observer.observe(CandidatesRefused(EXTRACTOR, {answer.refused: 1}))
        return ModelError.UNUSABLE if answer.refused == UNUSABLE else ModelError.NOT_IN_SOURCES

    async def _remaining(self, found: _Relevant) -> _Relevant:
        """What was not deleted meanwhile."""
        owners = {memory.scope.owner for memory in found.memories}
        deleted = {owner: await self.backends.turn_log.tombstones(Scope.of_owner(owner)) for owner in owners}

        def left(memories: Sequence[Memory]) -> list[Memory]:
            return [memory for memory in memories if not deleted[memory.scope.owner].covers(memory)]

        return _Relevant(left(found.memories), left(found.sources))


def _failure(error: ChatModelError) -> ModelError:
    if error.cause == "timeout":
        return ModelError.TIMEOUT
    return ModelError.UNAVAILABLE if isinstance(error, ModelUnavailableError) else ModelError.FAILED


def _by_count(
    asked: ReflectRequest, found: _Relevant, error: ModelError | None = None, *, known: bool = True
) -> Reflection:
    """What can be told without a model."""
    named = naming(asked.question, found.memories)
    ids = {memory.id for memory in named}
    found = _Relevant(named, [each for each in found.sources if each.id in ids] or found.sources)
    numbers = range(1, len(found.sources) + 1)
    count = counted(found.memories)
    text = in_words(count, asked.question, numbers)
    known = known and bool(found.memories)
    return _reflection(text, found, numbers, count, known=known, error=error)


def _by_model(asked: ReflectRequest, found: _Relevant, answer: CheckedAnswer, model: str) -> Reflection:
    text, count = answer.text or not_told(asked.question), counted(found.memories)
    return _reflection(text, found, answer.cited, count, known=bool(answer.text), model=model)


def _reflection(
    text: str,
    found: _Relevant,
    numbers: Sequence[int],
    count: Mentions,
    *,
    known: bool,
    model: str | None = None,
    error: ModelError | None = None,
) -> Reflection:
    return Reflection(
        answer=text,
        known=known,
        citations=[CitationJson.of(number, found.sources[number - 1]) for number in numbers],
        counted=MentionsJson.model_validate(count),
        model=model,
        model_error=error,
    )
