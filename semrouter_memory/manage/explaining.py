"""What recall would do with a question, and why: the request takes the same way as one that Envoy brings.

Strategy: the question becomes the body of a chat completion, the caller's headers those of the request, and the exchange and the
request phase of traffic answer it. Nothing is counted, and no turn is stored.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.exchange.events import BodyMode, Headers, RequestBody, RequestHeaders
from semrouter_memory.exchange.events import Protocol as FilterProtocol
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings
from semrouter_memory.exchange.replies import NeedRecall
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.manage.schemas import ApiAnswer, ApiList, MemoryJson, SearchRequest, UsageById
from semrouter_memory.model import (
    Hit,
    Memory,
    OwnerKind,
    Reason,
    RecallOptions,
    RecallResult,
    Scope,
    Steering,
)
from semrouter_memory.ports import Clock
from semrouter_memory.recall.categories import Need
from semrouter_memory.recall.explanation import Considered, Explanation, Verdict
from semrouter_memory.transport.request_phase import RequestPhase

_PATH = "/v1/chat/completions"
_NOT_OF_THE_REQUEST = frozenset({"content-encoding", "content-length", "content-type"})
_OF_SEARCHES = frozenset({"since", "until", "form", "source", "pinned", "cursor"})


class ExplainableSearch(SearchRequest):
    """A search, or a question whose recall is to be explained."""

    kind: Literal["search", "recall"] = Field(
        default="search",
        alias="as",
        description="`recall`: what recall would do with the question in a request, and why. What is not sent then is as"
        " configured; settings of a route are not known here.",
    )
    messages: Annotated[
        list[dict[str, Any]] | None,
        Field(
            description="With `recall`: the messages before the question, as in the body of a chat completion.",
            examples=[[{"role": "user", "content": "We plan Hawaii"}, {"role": "assistant", "content": "Nice!"}]],
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Explained:
    """An explained recall.

    Attributes:
        options: None: the request was not searched for.
    """

    result: RecallResult
    explanation: Explanation
    options: RecallOptions | None = None

    @property
    def memories(self) -> list[Memory]:
        return [each.hit.memory for each in self.explanation.considered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Asks recall."""

    recall: RequestPhase
    settings: ExchangeSettings
    clock: Clock

    async def explain(self, scope: Scope, headers: Sequence[tuple[str, str]], asked: ExplainableSearch) -> Explained:
        """What recall does with this question.

        Args:
            headers: of the caller: the organisation, the agent and the signals of a request.

        Raises:
            InvalidRequestError: the owner is no user, or a field does not fit.
        """
        if scope.kind is not OwnerKind.USER:
            raise InvalidRequestError("only a user's requests are recalled for", field="owner")
        for field in sorted(asked.model_fields_set & _OF_SEARCHES):
            raise InvalidRequestError("recall does not take it", field=field)
        exchange = Exchange(self.settings, RouteSettings(), self.clock.now())
        exchange.receive(
            RequestHeaders(self._headers(scope, headers), protocol=FilterProtocol(request_body=BodyMode.BUFFERED))
        )
        step = exchange.receive(RequestBody(_body(scope, asked), end_of_stream=True))
        explanation = Explanation()
        if not isinstance(step, NeedRecall):
            return Explained(RecallResult(reason=exchange.refusal or Reason.INTERNAL), explanation)
        # Without a key, no later request takes the decision for that of its own turn.
        request = replace(step.request, loop_key="")
        return Explained(await self.recall.recall(request, explanation), explanation, request.options)

    def _headers(self, scope: Scope, headers: Sequence[tuple[str, str]]) -> Headers:
        user_header = self.settings.memory.identity.user_header
        others = [each for each in headers if each[0] not in _NOT_OF_THE_REQUEST | {user_header}]
        return Headers([(":method", "POST"), (":path", _PATH), (user_header, scope.owner_id), *others])


def _body(scope: Scope, asked: ExplainableSearch) -> bytes:
    """The question as a client's request; only the settings that were sent are in it."""
    names = {
        "limit": "retrieval_limit",
        "threshold": "similarity_threshold",
        "types": "memory_types",
        "filter": "filter",
    }
    settings = {names[name]: getattr(asked, name) for name in names.keys() & asked.model_fields_set}
    body = {
        "messages": [*(asked.messages or ()), {"role": "user", "content": asked.query}],
        "memory_config": settings,
        "memory_context": {"project_id": scope.project_id} if scope.project_id else {},
    }
    try:
        # Not orjson: it refuses what a client may send (lone surrogates, integers beyond 64 bits).
        return json.dumps(body).encode()
    except RecursionError:
        raise InvalidRequestError("is nested too deeply", field="messages") from None


class PeriodJson(ApiAnswer):
    """A period that a question speaks of."""

    start: datetime
    end: datetime


class QuestionJson(ApiAnswer):
    """How recall reads a question."""

    text: str
    searched: list[str] = Field(
        description="The texts that are searched for: the question, with what was said before where it is vague, and a"
        " model's rewrite of it."
    )
    words: str = Field(description="The text whose words are searched for.")
    vague: bool = Field(description="It may refer to something that only the conversation names.")
    personal: bool = Field(description="It speaks of the user.")
    wants: float | None = Field(
        description="Log-odds that it wants anything that is known of the user; null where it was not searched by meaning."
    )
    needs: list[str] = Field(description="What the request needs without asking.", examples=[["food", "trip"]])
    period: PeriodJson | None = Field(description="The period that it speaks of.")

    @classmethod
    def of(cls, explanation: Explanation) -> "QuestionJson | None":
        query, features = explanation.query, explanation.features
        if query is None:
            return None
        need = features.need if features else Need.NONE
        return cls(
            text=query.text,
            searched=list(dict.fromkeys(explanation.searched)),
            words=query.search_words,
            vague=query.is_vague,
            personal=query.is_personal,
            wants=features.wants if features else None,
            needs=[str(each.name).lower() for each in need],
            period=PeriodJson.model_validate(features.period) if features and features.period else None,
        )


class CandidateJson(ApiAnswer):
    """A memory or a passage that recall considered."""

    id: str
    owner: str = Field(examples=["user:alice"])
    verdict: Verdict
    similarity: float = Field(description="Cosine of query and memory, -1 to 1.")
    relevance: float = Field(description="What the threshold is compared with.")
    features: dict[str, float] = Field(description="What the relevance was computed from, by name.")
    memory: MemoryJson | None = Field(
        description="Null for a deleted memory, and for what belongs to another owner and was not chosen."
    )

    @classmethod
    def of(cls, each: Considered, scope: Scope, features: dict[str, float], usage: UsageById) -> "CandidateJson":
        hit: Hit = each.hit
        chosen, own = each.verdict.is_chosen, hit.memory.scope.owner == scope.owner
        shown = chosen or (own and each.verdict is not Verdict.DELETED)
        return cls(
            id=hit.memory.id,
            owner=hit.memory.scope.owner,
            verdict=each.verdict,
            similarity=hit.similarity,
            relevance=hit.relevance,
            features={name.replace(" ", "_"): value for name, value in features.items()},
            memory=MemoryJson.of(hit.memory, usage) if shown else None,
        )


class RecalledJson(ApiAnswer):
    """A memory that was put into a request."""

    id: str
    owner: str = Field(examples=["user:alice"])
    relevance: float


class Receipt(ApiAnswer):
    """What one recall did."""

    at: datetime
    project_id: str
    reason: Reason = Field(description="Same as `x-memory-reason` of the request.")
    memories: list[RecalledJson] = Field(description="What was injected, best first.")
    steering: Steering | None = Field(
        default=None, description="What became of an order to the memory that the message gave; null for none."
    )
    forgotten: list[str] = Field(default=[], description="Ids of the memories that the order deleted.")


class ReceiptList(ApiList[Receipt]):
    """The last recalls of the owner, newest first."""


class RecallJson(ApiAnswer):
    """What recall would do with the question, and why."""

    object: Literal["recall"] = "recall"
    reason: Reason = Field(description="Same as `x-memory-reason` of a request.")
    threshold: float | None = Field(
        description="The relevance that a memory must have; null where nothing was searched."
    )
    limit: int | None = Field(description="How many memories are injected at most; null as above.")
    tokens: int = Field(description="Size of the block that would be injected.")
    text: str = Field(description='That block; "" for none.')
    question: QuestionJson | None = Field(description="Null where the request was not read.")
    data: Sequence[CandidateJson] = Field(description="What was considered, most relevant first.")
    steps_ms: dict[str, float] = Field(description="Duration of each step.")

    @classmethod
    def of(cls, explained: Explained, scope: Scope, usage: UsageById) -> "RecallJson":
        result, explanation, options = explained.result, explained.explanation, explained.options
        columns = explanation.columns
        return cls(
            reason=result.reason,
            threshold=options.threshold if options else None,
            limit=options.limit if options else None,
            tokens=result.tokens,
            text=result.text,
            question=QuestionJson.of(explanation),
            data=[
                CandidateJson.of(
                    each, scope, dict(columns.get((each.hit.memory.scope.owner, each.hit.memory.id), {})), usage
                )
                for each in explanation.considered
            ],
            steps_ms=dict(result.steps_ms),
        )
