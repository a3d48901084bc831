"""Plays long conversations turn by turn and measures the size of the next request.

The service's own exchange and codecs handle every turn and every question.
"""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.evaluation.cases import CaseTurn, Text, Wanted, case_of
from semrouter_memory.evaluation.running import (
    TURN_TIME,
    EvalOptions,
    Learner,
    clock_of,
    play_files,
    table_of,
    tracked,
)
from semrouter_memory.exchange.events import (
    BodyMode,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    ResponseBody,
    ResponseHeaders,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings
from semrouter_memory.exchange.replies import NeedRecall, ReplaceBody
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import Json, RecallResult, Scope, Turn

LENGTHS = (20, 50, 100, 200, 1000)
"""Of the made conversations that are played by default."""
TARGET_TOKENS = 700
"""What a conversation of 200 turns and 10,000 tokens may have left."""
_RECALL = Protocol(request_body=BodyMode.BUFFERED, response_body=BodyMode.NONE)
_RETAIN = Protocol(observing=True, request_body=BodyMode.STREAMED, response_body=BodyMode.STREAMED)
_NEXT = "Can you put everything together for me?"
"""A question that names nothing, so that only what is in the context by itself counts."""
_SEED = 7


@dataclass(frozen=True, slots=True)
class PlantedFact(Wanted):
    """Something the user says once, and that must be in what the model is given.

    Attributes:
        question: what the user asks when they need it.
    """

    said: Text = ""
    question: Text = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation and what must not get lost in it; one line of a file."""

    id: str
    turns: tuple[CaseTurn, ...]
    should_remember: tuple[PlantedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class FactFound:
    """Whether the model is given a fact: with any next request, and with one that asks for it (None: no request asks)."""

    about: str
    in_context: bool
    when_asked: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One conversation. Sizes are in the embedding model's tokens, of all texts without a system prompt.

    Attributes:
        tokens_asked: the largest of the requests that ask for a fact; 0 when none asks.
        state_tokens: of the state's block, part of `tokens_after`; the same of the memories' block.
    """

    id: str
    turns: int
    reason: str
    tokens_before: int
    tokens_after: int
    tokens_asked: int
    state_tokens: int
    memory_tokens: int
    facts: tuple[FactFound, ...]


class CompressionRun:
    """Plays conversations, each as a separate user; compression is always on.

    A model with the role `memory_extraction` extracts and orders the state, where there is one.
    """

    def __init__(self, pipelines: Pipelines) -> None:
        on = pipelines.memory.compression.model_copy(update={"enabled": True})
        pipelines = replace(pipelines, memory=pipelines.memory.model_copy(update={"compression": on}))
        self._embedder = pipelines.adapters.embedder
        self._clock = clock_of(pipelines.adapters)
        self._start = self._clock.now()
        self._settings = ExchangeSettings(pipelines.memory, max_body_bytes=1 << 30, max_answer_bytes=1 << 20)
        self._learner = Learner(pipelines)
        self._recaller = pipelines.request_phase()

    async def play(self, talk: Talk) -> Measured:
        """Play every turn, and measure the request after the last."""
        scope = Scope(f"user-of-{talk.id}")
        messages: list[dict[str, str]] = []
        for number, turn in enumerate(talk.turns):
            self._clock.time = self._start + number * TURN_TIME
            messages.append({"role": "user", "content": turn.user})
            await self._learner.turn(self._heard(scope, messages, turn.assistant, number))
            messages.append({"role": "assistant", "content": turn.assistant})
        before = [*messages, {"role": "user", "content": _NEXT}]
        after, result = await self._next(scope, before)
        compression = result.compression
        looked_for = [await self._looked_for(scope, messages, fact, after) for fact in talk.should_remember]
        return Measured(
            id=talk.id,
            turns=len(talk.turns),
            reason=compression.reason if compression else "too_short",
            tokens_before=self._size([message["content"] for message in before]),
            tokens_after=self._size(after),
            tokens_asked=max((size for _, size in looked_for), default=0),
            state_tokens=self._size([compression.text]) if compression else 0,
            memory_tokens=result.tokens,
            facts=tuple(found for found, _ in looked_for),
        )

    async def _looked_for(
        self, scope: Scope, messages: Sequence[Mapping[str, str]], fact: PlantedFact, after: Sequence[str]
    ) -> tuple[FactFound, int]:
        """Whether it is found, and the size of the request that asks for it."""
        if not fact.question:
            return FactFound(fact.about, fact.told_in(after), None), 0
        texts, _ = await self._next(scope, [*messages, {"role": "user", "content": fact.question}])
        return FactFound(fact.about, fact.told_in(after), fact.told_in(texts)), self._size(texts)

    # -- the exchanges -------------------------------------------------------------------------------------------------

    def _heard(self, scope: Scope, messages: Sequence[Mapping[str, str]], answer: str, number: int) -> Turn:
        """The retain filter's exchange of one turn."""
        exchange = Exchange(self._settings, RouteSettings(), self._clock.now())
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        exchange.receive(_headers(scope, _RETAIN, request_id=f"{scope.owner_id}-{number}"))
        exchange.receive(RequestBody(_body(messages), end_of_stream=True))
        exchange.receive(ResponseHeaders(Headers([(":status", "200"), ("content-type", "application/json")])))
        exchange.receive(ResponseBody(orjson.dumps({"id": f"c-{number}", "choices": [choice]}), end_of_stream=True))
        turn = exchange.take_turn()
        if turn is None:
            raise AssertionError("an exchange that ended well is a turn")
        return turn

    async def _next(self, scope: Scope, messages: Sequence[Mapping[str, str]]) -> tuple[list[str], RecallResult]:
        """The recall filter's exchange: every text of the request, and recall's result."""
        exchange = Exchange(self._settings, RouteSettings(), self._clock.now())
        raw = _body(messages)
        exchange.receive(_headers(scope, _RECALL, request_id="next"))
        step = exchange.receive(RequestBody(raw, end_of_stream=True))
        if not isinstance(step, NeedRecall):
            raise TypeError("a request with an identity needs recall")
        result = await self._recaller.recall(step.request)
        reply = exchange.recalled(result)
        parsed = ChatCodec().parse(reply.body if isinstance(reply, ReplaceBody) else raw)
        return list(parsed.visible), result

    def _size(self, texts: Sequence[str]) -> int:
        return sum(self._embedder.count_tokens(text) for text in texts)


def _headers(scope: Scope, protocol: Protocol, *, request_id: str) -> RequestHeaders:
    pairs = [
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        ("x-authz-user-id", scope.owner_id),
        ("x-request-id", request_id),
    ]
    return RequestHeaders(Headers(pairs), protocol=protocol)


def _body(messages: Sequence[Mapping[str, str]]) -> bytes:
    return orjson.dumps({"model": "m", "messages": messages})


async def evaluate(options: EvalOptions, turns: Sequence[int]) -> None:
    """The command; see `play_files`.

    Args:
        options: without files, made conversations are played.
        turns: lengths of the made conversations.
    """

    async def play(name: str, talks: Sequence[Talk], pipelines: Pipelines) -> list[Measured]:
        run = CompressionRun(pipelines)
        return [await run.play(talk) for talk in tracked(talks, name, total=len(talks))]

    made = [long_talk(count) for count in turns] if not options.files else []
    await play_files(options, Talk, play=play, report=_report, made=made, exact=True)


def _report(console: Console, name: str, measured: Sequence[Measured]) -> Json:
    console.print(_table(name, measured))
    for one in measured:
        if missing := [fact.about for fact in one.facts if not (fact.in_context or fact.when_asked)]:
            console.print(f"{one.id}: not in the context: {', '.join(missing)}", markup=False)
    return {"file": name, "target_tokens": TARGET_TOKENS, "conversations": [asdict(one) for one in measured]}


def _table(name: str, measured: Sequence[Measured]) -> Table:
    """`after`: with a question that names nothing; `asked`: the largest with one that asks for a fact."""
    columns = ("turns", "before", "after", "asked", "state", "facts", "asked for")
    table = table_of(f"{name}: what the next request goes up with, in tokens", "conversation", columns)
    for one in measured:
        asked = [fact.when_asked for fact in one.facts if fact.when_asked is not None]
        table.add_row(
            one.id if one.reason == "compressed" else f"{one.id} ({one.reason})",
            str(one.turns),
            f"{one.tokens_before:,}",
            f"{one.tokens_after:,}",
            f"{one.tokens_asked:,}" if asked else "",
            str(one.state_tokens),
            f"{sum(fact.in_context for fact in one.facts)}/{len(one.facts)}",
            f"{sum(asked)}/{len(asked)}" if asked else "",
        )
    return table


# -- the made conversation ---------------------------------------------------------------------------------------------


def long_talk(turns: int) -> Talk:
    """A conversation of so many turns, the same in every run; the facts are spread over its first four fifths."""
    draw = random.Random(_SEED)  # noqa: S311 - the same words in every run are wanted
    words = _words()
    told = [case_of(PlantedFact, fact) for fact in words["facts"]]
    facts = told[: max(1, min(len(told), turns // 2))]
    planted = {2 + round(at * 0.8 * turns / len(facts)): fact for at, fact in enumerate(facts)}
    return Talk(
        id=f"long-{turns}",
        turns=tuple(_turn(draw, words, planted.get(number)) for number in range(1, turns + 1)),
        should_remember=tuple(fact for number, fact in sorted(planted.items()) if number <= turns),
    )


@cache
def _words() -> dict[str, Any]:
    """Facts, and what people say between them: questions, remarks, half-sentences, answers with figures that are not needed later."""
    return tomllib.loads(resources.files("semrouter_memory.evaluation").joinpath("long_talk.toml").read_text("utf-8"))


def _turn(draw: random.Random, words: dict[str, Any], fact: PlantedFact | None) -> CaseTurn:
    asked = _said(draw, words, "asked")
    user = f"{fact.said} {asked}" if fact else asked
    return CaseTurn(user, f"{_said(draw, words, 'answered')} {_said(draw, words, 'added')}")


def _said(draw: random.Random, words: dict[str, Any], kind: str) -> str:
    place, other = draw.sample(words["places"], 2)
    template = draw.choice(words[kind])
    thing, time = draw.choice(words["things"]), draw.choice(words["times"])
    return str(template.format(place=place, other=other, thing=thing, time=time, n=draw.randint(2, 9)))
