"""Long conversations through the exchange, the retainer, the state builder and the recaller, with real files and model."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from typer.testing import CliRunner

from semrouter_memory.app.adapters import record_format
from semrouter_memory.backends import Backends
from semrouter_memory.cli.eval import eval_app
from semrouter_memory.compress.builder import StateBuilder
from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import Config, EmbeddingConfig, MemoryConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.compression import TARGET_TOKENS, CompressionRun, Measured, long_talk
from semrouter_memory.evaluation.running import FailureRecorder, exact_store, played_pipelines
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
from semrouter_memory.model import (
    AppendOutcome,
    CompressionReason,
    Json,
    Position,
    RecallOptions,
    RecallRequest,
    RecallResult,
    Scope,
)
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.recall.conversation import StoredHistory
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.recaller import Recaller, StrategyPair
from semrouter_memory.recall.strategy import MemorySource
from semrouter_memory.recall.vector_search import HybridSearch
from semrouter_memory.retain import quotes
from semrouter_memory.retain.grounding import telling
from semrouter_memory.retain.intake import cleaned
from semrouter_memory.retain.redact import without_secrets
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.transport.request_phase import RequestPhase
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog

pytest_plugins = ("tests.model_fixture",)

SILENT = FailureRecorder()
START = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = MemoryConfig.model_validate(
    {"compression": {"enabled": True, "min_turns": 6, "raw_turns": 2}, "recall": {"deadline_ms": 10_000}}
)
SINGLE = Protocol(request_body=BodyMode.BUFFERED, response_body=BodyMode.STREAMED)


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(EmbeddingConfig(), model_directory)


# -- the whole way -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def run(embedder: OnnxEmbedder) -> AsyncIterator[CompressionRun]:
    async with played_pipelines(embedder, Config(), store=exact_store(embedder)) as pipelines:
        yield CompressionRun(pipelines)


@pytest.fixture
async def measured(run: CompressionRun, turns: int) -> Measured:
    return await run.play(long_talk(turns))


@pytest.mark.parametrize("turns", [200])
async def test_two_hundred_turns_shrink_to_the_target_and_keep_what_was_said(measured: Measured) -> None:
    assert measured.reason == CompressionReason.COMPRESSED
    assert 9_000 < measured.tokens_before < 11_000
    assert measured.tokens_after <= TARGET_TOKENS
    assert measured.tokens_asked <= TARGET_TOKENS
    assert [fact.about for fact in measured.facts if not fact.in_context] == []
    assert [fact.about for fact in measured.facts if not fact.when_asked] == []


@pytest.mark.parametrize("turns", [12])
async def test_a_short_conversation_goes_up_whole(measured: Measured) -> None:
    assert measured.tokens_after - measured.memory_tokens == measured.tokens_before


# -- stored chains -----------------------------------------------------------------------------------------------------


@dataclass
class Clock:
    time: datetime = START

    def now(self) -> datetime:
        return self.time


@dataclass
class Server:
    """What a server of the Responses API would be asked, and what it would know: the items behind each of its responses."""

    known: dict[str, list[Json]] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, raw: bytes, output: list[Json]) -> dict[str, Json]:
        body = orjson.loads(raw)
        given = body["input"]
        own = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        before = self.known[body["previous_response_id"]] if "previous_response_id" in body else []
        response_id = f"resp_{len(self.bodies)}"
        self.bodies.append(body)
        self.known[response_id] = [*before, *own, *output]
        return {"id": response_id, "status": "completed", "output": output}

    @property
    def seen(self) -> list[Json]:
        """The items that the model was last given, its answer included."""
        return self.known[f"resp_{len(self.bodies) - 1}"]


class Client:
    """A conversation through both phases of an exchange, with the log, the state and the builder behind it."""

    def __init__(self, directory: Path, embedder: OnnxEmbedder) -> None:
        self.clock, self.server = Clock(), Server()
        self.log = SqliteTurnLog(directory / "turns.db", clock=self.clock)
        self.states = SqliteStateStore(directory / "state.db", clock=self.clock)
        self.results: list[RecallResult] = []
        self.previous = ""
        parts = SimpleNamespace(state=self.states, turn_log=self.log, embedder=embedder, observer=SILENT)
        backends = cast("Backends", parts)
        self._builder = StateBuilder(
            backends, chat_model=None, config=CONFIG.compression, redact=without_secrets, telling=telling
        )
        source = MemorySource(
            reader=InMemoryStore(dimension=embedder.dimension, record_format=record_format()),
            indexes=None,
            clock=self.clock,
        )
        strategy = HybridSearch(source=source, vectors=QueryVectors(embedder), config=CONFIG.recall)
        recaller = Recaller(
            strategies={"hybrid": StrategyPair(strategy, strategy)},
            embedder=embedder,
            turn_log=self.log,
            observer=SILENT,
            clock=self.clock,
            config=CONFIG.recall,
        )
        self._recaller = RequestPhase(
            recaller=recaller,
            history=StoredHistory(self.log, CONFIG.recall),
            observer=SILENT,
            priority=RequestsFirst(),
            config=CONFIG.recall,
            compressor=Compressor(backends, CONFIG.compression),
        )

    async def say(self, given: Json, *output: Json, **fields: Json) -> dict[str, Any]:
        """Send one request; returns the body that went up."""
        self.clock.time += timedelta(minutes=1)
        chain = {"previous_response_id": self.previous} if self.previous else {}
        raw = orjson.dumps({"model": "m", "input": given, **chain, **fields})
        exchange = Exchange(ExchangeSettings(CONFIG, 1 << 20, 1 << 20), RouteSettings(), self.clock.now())
        exchange.receive(_headers(len(self.server.bodies)))
        step = exchange.receive(RequestBody(raw, end_of_stream=True))
        assert isinstance(step, NeedRecall)
        self.results.append(await self._recaller.recall(step.request))
        reply = exchange.recalled(self.results[-1])
        sent = reply.body if isinstance(reply, ReplaceBody) else raw
        answer = self.server.answer(sent, list(output))
        exchange.receive(ResponseHeaders(Headers([(":status", "200"), ("content-type", "application/json")])))
        exchange.receive(ResponseBody(orjson.dumps(answer), end_of_stream=True))
        await self._remember(exchange)
        self.previous = cast("str", answer["id"])
        return cast("dict[str, Any]", orjson.loads(sent))

    async def chat(self, messages: list[Json], message: Json) -> None:
        """Send one request of a client that repeats the conversation, answered by that message, which it keeps."""
        self.clock.time += timedelta(minutes=1)
        exchange = Exchange(ExchangeSettings(CONFIG, 1 << 20, 1 << 20), RouteSettings(), self.clock.now())
        exchange.receive(_headers(len(self.results), "/v1/chat/completions"))
        step = exchange.receive(RequestBody(orjson.dumps({"model": "m", "messages": messages}), end_of_stream=True))
        assert isinstance(step, NeedRecall)
        self.results.append(await self._recaller.recall(step.request))
        exchange.recalled(self.results[-1])
        answer = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        exchange.receive(ResponseHeaders(Headers([(":status", "200"), ("content-type", "application/json")])))
        exchange.receive(ResponseBody(orjson.dumps(answer), end_of_stream=True))
        await self._remember(exchange)
        messages.append(message)

    async def talk(self, turns: int) -> None:
        for number in range(1, turns + 1):
            await self.say(f"My number {number} is {number}.", said(f"Fine {number}."))

    @property
    def reason(self) -> str:
        compression = self.results[-1].compression
        return compression.reason if compression else ""

    async def _remember(self, exchange: Exchange) -> None:
        turn = exchange.take_turn()
        assert turn is not None
        appended = self.log.append(cleaned(turn, max_chars=1000).turn, remember=False)
        if appended.outcome not in (AppendOutcome.ACCEPTED, AppendOutcome.COMPLETED):
            return
        claim = await self.log.claim(turn.scope, appended.session_id, lease=timedelta(minutes=1), context=20)
        assert claim is not None
        await self._builder.turns_read(claim, claim.turns, quotes.candidates(claim.turns))
        await self.log.finish(claim, {each.id: True for each in claim.turns})

    def close(self) -> None:
        self.log.close()
        self.states.close()


def said(text: str) -> dict[str, Json]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _headers(number: int, path: str = "/v1/responses") -> RequestHeaders:
    pairs = [(":method", "POST"), (":path", path), ("x-authz-user-id", "alice")]
    return RequestHeaders(Headers([*pairs, ("x-request-id", f"r-{number}")]), protocol=SINGLE)


@pytest.fixture
def client(tmp_path: Path, embedder: OnnxEmbedder) -> Iterator[Client]:
    client = Client(tmp_path, embedder)
    yield client
    client.close()


async def test_a_chain_is_compressed_and_goes_on_compressed(client: Client) -> None:
    await client.talk(7)
    await client.say("And now?", said("Now."))
    sent = await client.say("And then?", said("Then."))

    assert client.reason == CompressionReason.COMPRESSED
    assert "previous_response_id" not in sent
    assert [item.get("content") for item in sent["input"] if item["role"] == "user"] == [
        "My number 7 is 7.",
        "And now?",
        "And then?",
    ]
    assert '"My number 1 is 1."' in sent["instructions"]


async def test_a_compressed_chain_whose_state_has_ended_is_rebuilt_from_its_first_item(client: Client) -> None:
    await client.talk(8)
    assert client.reason == CompressionReason.COMPRESSED
    client.clock.time += timedelta(hours=CONFIG.compression.state_ttl_hours + 1)
    sent = await client.say("And now?", said("Now."))

    assert client.reason == CompressionReason.REBUILT
    assert "previous_response_id" not in sent
    assert [item["role"] for item in sent["input"]] == ["user", "assistant"] * 8 + ["user"]
    assert sent["input"][0]["content"] == "My number 1 is 1."
    assert "instructions" not in sent


async def test_a_chain_with_a_secret_in_it_is_left_to_the_server(client: Client) -> None:
    await client.talk(3)
    await client.say("My password is hunter2-Extra.", said("Noted."))
    await client.talk(4)

    assert client.reason == CompressionReason.CHAIN_INCOMPLETE
    assert all("previous_response_id" in body for body in client.server.bodies[1:])
    assert len(client.server.seen) == 16


async def test_a_tool_loop_in_a_compressed_chain_goes_on_with_the_same_beginning(client: Client) -> None:
    await client.talk(8)
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    first = await client.say("Look it up.", call)
    second = await client.say(
        [{"type": "function_call_output", "call_id": "c1", "output": "found"}], said("Here it is.")
    )

    assert client.reason == CompressionReason.COMPRESSED
    assert second["instructions"] == first["instructions"]
    assert second["input"][: len(first["input"])] == first["input"]
    assert [item["type"] for item in second["input"][len(first["input"]) :]] == [
        "function_call",
        "function_call_output",
    ]


async def test_a_loop_of_an_earlier_turn_leaves_as_a_whole(client: Client) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    await client.say("Look it up.", call)
    await client.say([{"type": "function_call_output", "call_id": "c1", "output": "found"}], said("Here it is."))
    await client.talk(7)

    assert client.reason == CompressionReason.COMPRESSED
    assert "function_call" not in {item.get("type") for item in client.server.bodies[-1]["input"]}


async def test_a_chat_is_compressed_whose_turns_are_loops(client: Client) -> None:
    """Each turn is read twice: with its first step, and with its answer."""
    messages: list[Json] = []
    for number in range(1, 9):
        function = {"name": "look", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "user", "content": f"My number {number} is {number}."})
        await client.chat(messages, {"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "found"})
        await client.chat(messages, {"role": "assistant", "content": f"Fine {number}."})

    assert client.reason == CompressionReason.COMPRESSED


async def test_an_unchained_request_between_does_not_disturb(client: Client, embedder: OnnxEmbedder) -> None:
    await client.talk(7)
    request = RecallRequest(
        scope=Scope("alice"), query="x", options=RecallOptions(limit=1, threshold=0.6, position=Position.SYSTEM)
    )

    assert (await client._recaller.recall(request)).compression is None


# -- the command -------------------------------------------------------------------------------------------------------


def _evaluate(tmp_path: Path, model_directory: Path, *arguments: str) -> dict[str, Any]:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(
        eval_app, ["compression", *arguments, "--model", str(model_directory), "--json", str(out)]
    )
    assert result.exit_code == 0, result.output
    (of_one_file,) = orjson.loads(out.read_bytes())["files"]
    return cast("dict[str, Any]", of_one_file)


def test_the_command_plays_made_conversations(tmp_path: Path, model_directory: Path) -> None:
    result = _evaluate(tmp_path, model_directory, "--turns", "12", "--turns", "30")

    assert result["target_tokens"] == TARGET_TOKENS
    assert [(each["turns"], each["reason"]) for each in result["conversations"]] == [
        (12, "too_short"),
        (30, "compressed"),
    ]


def test_the_command_plays_a_file_of_conversations(tmp_path: Path, model_directory: Path) -> None:
    case = {
        "id": "mine",
        "turns": [{"user": f"My number {at} is {at}.", "assistant": "Fine."} for at in range(20)],
        "should_remember": [{"about": "nineteen", "any_of": ["19"]}, {"about": "nothing", "any_of": ["sixty"]}],
    }
    file = tmp_path / "mine.jsonl"
    file.write_bytes(orjson.dumps(case) + b"\n")
    (measured,) = _evaluate(tmp_path, model_directory, str(file))["conversations"]

    assert (measured["id"], measured["reason"]) == ("mine", "compressed")
    assert [fact["in_context"] for fact in measured["facts"]] == [True, False]
