"""What is explained is what happens: the same question is asked of the API and, as a request, of the processor."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict

from semrouter_memory.config import ManagementConfig
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.maintenance.recall_journal import receipt_lines
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.model import (
    OwnerKind,
    Reach,
    Reason,
    RecallOptions,
    RecallRequest,
    RecallResult,
    Scope,
    Steered,
    Steering,
    Tombstone,
    Turn,
)
from semrouter_memory.ports import Embedder
from semrouter_memory.recall.explanation import Verdict
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from semrouter_memory.transport.processor import Processor
from tests.memory_service import SilentObserver, access_to
from tests.recalling import ALICE, NOW, Recalling, recalling

pytest_plugins = ("tests.model_fixture",)

BUDGET = "User's budget for the Hawaii trip is $10,000"
PEANUTS = "User is allergic to peanuts"
QUESTION = "What's my budget for the trip?"
ACME = Scope("acme", kind=OwnerKind.ORGANISATION)
FACTS = (
    *(BUDGET, PEANUTS, "User lives in Berlin", "User's name is Alice", "User works as a nurse at St Mary hospital"),
    *("User's dog is called Rex", "User drives an old blue Volvo", "User pays 900 euros a month in rent"),
    *("User's Hawaii trip is in June", "User flies to Hawaii with Tom", "To deploy payment-service: run npm build"),
)


_JSON = {"content-type": "application/json"}


class Retain:
    def accept(self, turn: Turn) -> None: ...


class Call:
    """What the processor asks of a gRPC call."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


@pytest.fixture
async def known(embedder: Embedder) -> AsyncIterator[Recalling]:
    async with recalling(embedder) as made:
        await made.remember(*FACTS)
        yield made


async def explained(
    known: Recalling, query: str = QUESTION, *, headers: dict[str, str] | None = None, status: int = 200, **fields: Any
) -> dict[str, Any]:
    app = create_user_api(access_to(known.service()), config=ManagementConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        body = {"query": query, "as": "recall", **fields}
        sent = {"x-authz-user-id": "alice", **(headers or {})}
        # Not `json=`: that cannot write a lone surrogate.
        answer = await http.post("/v1/memory/search", content=json.dumps(body), headers=sent | _JSON)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


async def injected(
    known: Recalling,
    query: str = QUESTION,
    *,
    messages: Sequence[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
    project: str = "",
    **config: Any,
) -> tuple[dict[str, Any], str]:
    """What the processor tells of the request, and the body that goes upstream."""
    processor = Processor(
        settings=ExchangeSettings(known.config, max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
        recall=known.recaller.recall,
        accept=Retain().accept,
        observer=SilentObserver(),
        clock=known.clock,
    )
    asked = {"model": "m", "messages": [*messages, {"role": "user", "content": query}], "memory_config": config}
    body = json.dumps(asked | ({"memory_context": {"project_id": project}} if project else {}))
    fields = {":path": "/v1/chat/completions", ":method": "POST", "x-authz-user-id": "alice", **(headers or {})}
    opening = pb.HttpHeaders(
        headers=pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=text.encode()) for key, text in fields.items()])
    )
    protocol = pb.ProtocolConfiguration(request_body_mode=pb.ProtocolConfiguration.BUFFERED)

    async def stream() -> AsyncIterator[pb.ProcessingRequest]:
        yield pb.ProcessingRequest(request_headers=opening, protocol_config=protocol)
        yield pb.ProcessingRequest(request_body=pb.HttpBody(body=body.encode(), end_of_stream=True))

    call: Any = Call()
    replies = [pb.ProcessingResponse.FromString(reply) async for reply in processor.process(stream(), call)]
    last = replies[-1]
    told: dict[str, Any] = MessageToDict(last.dynamic_metadata)[wire.NAMESPACE]
    return told, last.request_body.response.body_mutation.body.decode()


def chosen(answer: dict[str, Any]) -> list[str]:
    return [each["id"] for each in answer["data"] if each["verdict"] == Verdict.CHOSEN]


def verdicts(answer: dict[str, Any]) -> dict[str, str]:
    return {each["memory"]["content"]: each["verdict"] for each in answer["data"] if each["memory"]}


HISTORY = [{"role": "user", "content": "I plan my Hawaii trip"}, {"role": "assistant", "content": "Nice!"}]
VISIBLE = [{"role": "user", "content": "My budget for the Hawaii trip is $10,000"}, HISTORY[1]]
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "plain": (QUESTION, {}, {}),
    "another": ("Recommend me a restaurant for dinner", {}, {}),
    "greeting": ("hello", {}, {}),
    "unknown": ("Who wrote Don Quixote?", {}, {}),
    "limit": ("What about my Hawaii trip?", {"limit": 1}, {"retrieval_limit": 1}),
    "threshold": (QUESTION, {"threshold": 0.99}, {"similarity_threshold": 0.99}),
    "all": (QUESTION, {"threshold": -1.0, "limit": 50}, {"similarity_threshold": -1.0, "retrieval_limit": 50}),
    "types": (QUESTION, {"types": ["procedural"]}, {"memory_types": ["procedural"]}),
    "project": (QUESTION, {"project_id": "work"}, {"project": "work"}),
    "history": ("How much may it cost?", {"messages": HISTORY}, {"messages": HISTORY}),
    "visible": (QUESTION, {"messages": VISIBLE}, {"messages": VISIBLE}),
    "opted out": (QUESTION, {"headers": {"x-memory-opt-out": "1"}}, {"headers": {"x-memory-opt-out": "1"}}),
    "organisation": (QUESTION, {"headers": {"x-memory-org": "acme"}}, {"headers": {"x-memory-org": "acme"}}),
}


@pytest.mark.parametrize(("query", "asked", "request_"), CASES.values(), ids=CASES)
async def test_what_is_called_chosen_is_what_the_processor_injects(
    known: Recalling, query: str, asked: dict[str, Any], request_: dict[str, Any]
) -> None:
    await known.remember("User's budget for the project is $3,000", scope=ALICE.in_project("work"))
    await known.remember("The travel budget of a trip is $2,000 at most", scope=ACME)
    answer = await explained(known, query, **asked)
    told, body = await injected(known, query, **request_)
    assert answer["reason"] == told["reason"]
    assert chosen(answer) == told.get("memory_ids", "").split(",")[: int(told.get("memories_used", 0))]
    assert answer["tokens"] == told.get("tokens", 0)
    if answer["text"]:
        assert json.dumps(answer["text"])[1:-1] in json.dumps(json.loads(body), ensure_ascii=True)


async def test_each_candidate_has_its_reason(known: Recalling) -> None:
    assert verdicts(await explained(known, messages=VISIBLE))[BUDGET] == Verdict.VISIBLE
    await known.remember("User's budget for the Hawaii trip: $10,000")
    found = verdicts(await explained(known, "What's my budget for the Hawaii trip?", limit=2))
    assert found[BUDGET] in {Verdict.CHOSEN, Verdict.DUPLICATE}
    assert found["User's budget for the Hawaii trip: $10,000"] in {Verdict.CHOSEN, Verdict.DUPLICATE}
    assert found[BUDGET] != found["User's budget for the Hawaii trip: $10,000"]
    assert found["User's dog is called Rex"] == Verdict.BELOW_THRESHOLD
    assert Verdict.OVER_LIMIT in verdicts(await explained(known, threshold=-1, limit=1)).values()
    assert verdicts(await explained(known, types=["procedural"]))[BUDGET] == Verdict.FORBIDDEN_TYPE
    assert verdicts(await explained(known, filter="category=work"))[BUDGET] == Verdict.FILTERED
    assert verdicts(await explained(known, filter="min_importance=0.6"))[BUDGET] == Verdict.FILTERED


async def test_a_block_that_is_full_and_a_deleted_memory_are_named(embedder: Embedder) -> None:
    async with recalling(embedder, token_budget=60) as known:
        await known.remember(*FACTS)
        answer = await explained(known, threshold=-1, limit=50)
        assert Verdict.OVER_BUDGET in verdicts(answer).values()
        gone = answer["data"][0]["id"]
        await known.adapters.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id=gone, reach=Reach.EXACT))
        deleted = next(each for each in (await explained(known, threshold=-1, limit=50))["data"] if each["id"] == gone)
        assert (deleted["verdict"], deleted["memory"]) == (Verdict.DELETED, None)


async def test_a_question_is_shown_as_it_is_read(known: Recalling) -> None:
    answer = await explained(known, "How much may it cost?", messages=HISTORY)
    question = answer["question"]
    assert question["text"] == "How much may it cost?"
    assert question["vague"]
    assert "Hawaii trip" in question["searched"][0]
    assert "hawaii" in question["words"].lower()
    features = answer["data"][0]["features"]
    assert {"similarity", "lexical", "score", "behind", "outstanding", "wants"} <= features.keys()
    greeted = await explained(known, "hello")
    assert (greeted["reason"], greeted["data"], greeted["question"]["wants"]) == ("greeting", [], None)


async def test_an_explanation_changes_no_count_and_decides_no_loop(known: Recalling) -> None:
    before = await known.adapters.state.usage(ALICE, [each["id"] for each in (await explained(known))["data"]])
    assert before == {}
    loop: list[dict[str, Any]] = [*HISTORY, {"role": "user", "content": QUESTION}]
    await explained(known, messages=HISTORY)
    await known.remember("User's budget for the trip to Hawaii is now $12,000")
    step: dict[str, Any] = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
    }
    told, body = await injected(known, messages=[*loop, step], query="")
    assert told["reason"] != "internal_error"
    assert "$12,000" in (await injected(known, messages=HISTORY))[1]
    assert body is not None


async def test_what_others_know_is_shown_where_it_is_chosen_and_nowhere_else(known: Recalling) -> None:
    await known.remember("The travel budget of a trip is $2,000 at most", "Lunch is at noon", scope=ACME)
    await known.remember("User's budget is $77", scope=Scope("bob"))
    answer = await explained(known, headers={"x-memory-org": "acme"})
    others = [each for each in answer["data"] if each["owner"] == ACME.owner]
    assert others
    assert all((each["memory"] is not None) == (each["verdict"] == Verdict.CHOSEN) for each in others)
    assert {each["owner"] for each in answer["data"]} == {ALICE.owner, ACME.owner}
    assert ACME.owner not in {each["owner"] for each in (await explained(known))["data"]}


async def test_of_a_user_without_memories_the_organisations_are_explained_as_their_own_are(embedder: Embedder) -> None:
    async with recalling(embedder) as made:
        await made.remember("The travel budget of a trip is $2,000 at most", "Lunch is at noon", scope=ACME)
        answer = await explained(made, headers={"x-memory-org": "acme"})
        nothing = await explained(made, "Is my bicycle red?", headers={"x-memory-org": "acme"})
    assert answer["reason"] == "injected"
    assert answer["question"]["searched"] == [QUESTION]
    assert answer["question"]["wants"] is not None
    assert all(each["features"] for each in answer["data"])
    # There are memories, none of which is relevant enough.
    assert nothing["reason"] == "below_threshold"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"since": "2026-01-01"}, "since"),
        ({"messages": [{}], "as": "search"}, "messages"),
        ({"as": "reflect"}, "as"),
    ],
)
async def test_what_recall_cannot_be_asked_is_refused(known: Recalling, fields: dict[str, Any], param: str) -> None:
    answer = await explained(known, status=400, **fields)
    assert answer["error"]["param"] == param


@pytest.mark.parametrize("odd", ["\ud800", 10**30, {"\udfff": [1e300, "用户"]}, json.loads("[" * 500 + "]" * 500)])
async def test_messages_may_hold_what_a_request_may(known: Recalling, odd: object) -> None:
    """JSON allows it, so clients send it."""
    messages = [{"role": "user", "content": "We plan Hawaii", "odd": odd}, {"role": "assistant", "content": "Nice!"}]
    assert (await explained(known, messages=messages))["reason"] == "injected"


async def test_an_organisation_has_no_recall(known: Recalling) -> None:
    app = create_user_api(access_to(known.service()), config=ManagementConfig())
    sent = {"x-authz-user-id": "alice", "x-memory-org-admin": "acme"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=sent) as http:
        answer = await http.post(f"/v1/memory/search?owner={ACME.owner}", json={"query": QUESTION, "as": "recall"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "owner")


async def test_memories_that_are_all_deleted_are_none(known: Recalling) -> None:
    """Whether the store lags behind or not."""
    await known.adapters.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id="", reach=Reach.ALL))
    answer = await explained(known)
    assert {each["verdict"] for each in answer["data"]} == {Verdict.DELETED}
    assert answer["reason"] == (await injected(known))[0]["reason"] == "no_memories"


async def receipts(known: Recalling, user: str = "alice") -> list[dict[str, Any]]:
    app = create_user_api(access_to(known.service()), config=ManagementConfig())
    headers = {"x-authz-user-id": user}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
    ) as http:
        answer = await http.get("/v1/memory/receipts")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_a_receipt_says_what_a_request_was_given(known: Recalling) -> None:
    pipelines = known.pipelines
    writer = pipelines.journal
    known.recaller = pipelines.request_phase(journal=writer)
    told, _ = await injected(known)
    await injected(known, "hello")
    explanation = await explained(known)
    assert await receipts(known) == []
    await writer.flush()
    greeted, answered = await receipts(known)
    assert (greeted["reason"], greeted["memories"]) == ("greeting", [])
    assert (answered["reason"], [each["id"] for each in answered["memories"]]) == ("injected", [told["memory_ids"]])
    (relevance,) = (each["relevance"] for each in explanation["data"] if each["verdict"] == Verdict.CHOSEN)
    assert answered["memories"][0]["relevance"] == round(relevance, 4)
    assert told["memory_scores"] == f"{relevance:.3f}"
    assert BUDGET not in json.dumps(answered)
    used = await known.adapters.state.usage(ALICE, [told["memory_ids"]])
    assert [each.access_count for each in used.values()] == [1], "what is only explained is not counted"
    assert await receipts(known, "bob") == []
    await injected(known)
    known.clock.time += timedelta(seconds=1)
    at = known.clock.time
    await known.adapters.turn_log.tombstone(
        Tombstone(scope=ALICE, at=at, memory_id=told["memory_ids"], reach=Reach.EXACT)
    )
    await writer.flush()
    assert await receipts(known) == [], "a receipt from before a deletion may name what was deleted"
    assert len(await receipt_lines(known.adapters.state, ALICE)) == 2, "the late one is not even written"
    known.clock.time += timedelta(seconds=1)
    await injected(known, "hello")
    await writer.flush()
    assert [each["reason"] for each in await receipts(known)] == ["greeting"]


async def test_a_receipt_says_what_an_order_to_forget_did(known: Recalling) -> None:
    writer = known.pipelines.journal
    request = RecallRequest(scope=ALICE, query="Forget that.", options=RecallOptions(limit=5, threshold=0.6))
    steered = Steered(Steering.FORGOTTEN, ("mem_1",))
    writer.note(request, RecallResult(reason=Reason.NO_MEMORIES, steered=steered))
    await writer.flush()
    (receipt,) = await receipts(known)
    assert (receipt["steering"], receipt["forgotten"]) == ("forgotten", ["mem_1"])


async def test_a_late_recall_says_so(embedder: Embedder) -> None:
    async with recalling(embedder, deadline_ms=0.001) as known:
        await known.remember(*FACTS)
        answer = await explained(known)
    assert answer["reason"] == "timeout"
    assert {each["verdict"] for each in answer["data"]} <= {Verdict.DEADLINE}
