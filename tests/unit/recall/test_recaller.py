"""The whole request phase over stand-ins for the outside world."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest

from semrouter_memory.codec.base import strip_block, transcript_hash
from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import RecallConfig
from semrouter_memory.deletion.in_words import InWords
from semrouter_memory.errors import Service, StoreUnavailableError, TurnLogError, UnavailableError
from semrouter_memory.events import Event, ExchangeFailed, RecallFinished
from semrouter_memory.model import (
    ChatMessage,
    Criteria,
    Hit,
    LoggedTurn,
    MemoryType,
    Message,
    OtherOwner,
    OwnerKind,
    Reach,
    Reason,
    RecallOptions,
    RecallRequest,
    RecallResult,
    Role,
    Scope,
    Signals,
    Steered,
    Steering,
    StrategyName,
    TurnState,
    Vector,
    parse_filter,
)
from semrouter_memory.ports import MemoryIndex, MemoryReader, TurnLog
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.recall.conversation import StoredHistory
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.recaller import Recaller, StrategyPair
from semrouter_memory.recall.rewrite import Mode, RewritingSearch
from semrouter_memory.recall.strategy import MemorySource, Strategy
from semrouter_memory.recall.vector_search import SemanticSearch
from semrouter_memory.transport.request_phase import REPORTED_AFTER_SECONDS, RequestPhase
from tests.found import found_index
from tests.stepped_time import SteppedTime

MakeHit = Callable[..., Hit]
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ALICE = Scope("alice")
HAWAII = (Message(Role.USER, "Planning Hawaii vacation"), Message(Role.ASSISTANT, "Nice!"))
REQUEST = RecallRequest(
    scope=ALICE, query="What's my budget for the trip?", options=RecallOptions(limit=2, threshold=0.6)
)


@dataclass
class World:
    """Everything outside of the pipeline, with switches to break it, and what was asked of it."""

    time: SteppedTime
    hits: dict[str, list[Hit]] = field(default_factory=dict)
    """By a word of the embedded text; "" is for any text."""
    chain: dict[str, list[Message]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    turns: list[LoggedTurn] = field(default_factory=list)
    erased_until: datetime = NOW - timedelta(days=99)
    delay: dict[str, float] = field(default_factory=dict)
    error: dict[str, BaseException] = field(default_factory=dict)
    blocks: dict[str, float] = field(default_factory=dict)
    """Seconds for which a step holds the event loop."""
    stubborn: bool = False
    """The model goes on when it is cancelled."""
    available: bool = True
    answer: str = ""
    now: datetime = NOW
    embedded: list[str] = field(default_factory=list)
    searches: list[tuple[Criteria, dict[str, Any]]] = field(default_factory=list)
    results: list[RecallResult] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    lates: int = 0

    # Embedder
    dimension = 1
    fingerprint = "stand-in"
    # ChatModel
    name = "stand-in"
    retry_after = None

    async def embed_query(self, text: str) -> Vector:
        await self._happens("embed")
        self.embedded.append(text)
        return np.zeros(1, np.float32)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    passage_tokens = count_tokens
    max_passage_tokens = 1_000

    def late(self) -> None:
        self.lates += 1

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        await self._happens("rewrite")
        return self.answer

    async def search_index(
        self,
        criteria: Criteria,
        vector: Vector,
        **arguments: Any,
    ) -> MemoryIndex:
        scope = criteria.scope
        await self._happens("search")
        await self._happens(f"search of {scope.owner}")
        self.searches.append((criteria, arguments))
        found = [hit for word, hits in self.hits.items() if word in self.embedded[-1] for hit in hits]
        return found_index(hit for hit in found if hit.memory.scope.owner == scope.owner)

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        await self._happens("history")
        return self.chain.get(f"{scope.owner_id} {previous_response_id}", [])[-limit:]

    async def tombstones(self, scope: Scope) -> Any:
        await self._happens("tombstones")
        return SimpleNamespace(
            covers=lambda memory: memory.id in self.deleted,
            forbids=lambda *_: False,
            erases=lambda at: at <= self.erased_until,
            paused_since=None,
        )

    async def list_turns(self, **_: Any) -> list[LoggedTurn]:
        await self._happens("turns")
        return self.turns

    async def _happens(self, step: str) -> None:
        self.time.hold(self.blocks.get(step, 0))
        try:
            await asyncio.sleep(self.delay.get(step, 0))
        except asyncio.CancelledError:
            self.cancelled.append(step)
            if not self.stubborn:
                raise
            await asyncio.sleep(1)
        if step in self.error:
            raise self.error[step]

    def observe(self, event: Event) -> None:
        match event:
            case RecallFinished(result):
                self.results.append(result)
            case ExchangeFailed(error):
                self.failures.append(error)
            case _:
                pass

    def recaller(
        self, mode: Mode | None = None, *, compressor: Compressor | None = None, **config: Any
    ) -> RequestPhase:
        clock = cast("Any", SimpleNamespace(now=lambda: self.now))
        settings = RecallConfig(**{"strategy": "semantic", **config})
        source = MemorySource(reader=cast("MemoryReader", self), indexes=None, clock=clock)
        strategy: Strategy = SemanticSearch(source=source, vectors=QueryVectors(self), config=settings)
        if mode:
            strategy = RewritingSearch(strategy, self, mode)
        turn_log = cast("TurnLog", self)
        return RequestPhase(
            recaller=Recaller(
                strategies=dict.fromkeys(get_args(StrategyName), StrategyPair(strategy, strategy)),
                embedder=self,
                turn_log=turn_log,
                observer=self,
                clock=clock,
                config=settings,
            ),
            history=StoredHistory(turn_log, settings, always=mode is not None),
            observer=self,
            config=settings,
            priority=RequestsFirst(),
            compressor=compressor,
        )


@pytest.fixture
def world(make_hit: MakeHit, stepped_time: SteppedTime) -> World:
    budget = make_hit("User's budget for the Hawaii trip is $10,000", 0.7, memory_id="m1")
    return World(hits={"": [budget]}, time=stepped_time)


# -- the way down ------------------------------------------------------------------------------------------------------


async def test_memories_above_the_cut_are_rendered(world: World) -> None:
    result = await world.recaller().recall(REQUEST)

    assert result.reason is Reason.INJECTED
    assert "- User's budget for the Hawaii trip is $10,000\n" in result.text
    assert [hit.memory.id for hit in result.hits] == ["m1"]
    assert result.tokens == len(result.text.split())
    assert list(result.steps_ms) == ["decide", "query", "search", "score", "embed", "rank", "render"]
    assert all(duration >= 0 for duration in result.steps_ms.values())


async def test_a_question_that_reckons_with_today_is_told_the_day(world: World) -> None:
    result = await world.recaller().recall(replace(REQUEST, query="how long ago did I plan the trip?"))

    assert "\n\nToday: Fri 20 March 2026 (UTC).\n" in result.text
    assert result.tokens == len(result.text.split())
    assert "Today" not in (await world.recaller().recall(REQUEST)).text


OF_ANSWER = replace(REQUEST, query="Which islands did you suggest?", loop_key="turn")


def answered(text: str = "Kauai and Maui are the islands for you.", **values: Any) -> LoggedTurn:
    turn = LoggedTurn(
        id="t1",
        sequence=1,
        scope=Scope("alice"),
        session_id="s",
        user_text="which islands are nice?",
        assistant_text=text,
        observed_at=NOW - timedelta(days=3),
        state=TurnState.EXTRACTED,
    )
    return replace(turn, **values)


async def test_what_the_assistant_answered_earlier_is_given_where_the_request_speaks_of_it(world: World) -> None:
    world.turns = [answered()]
    world.hits = {}

    result = await world.recaller().recall(OF_ANSWER)

    assert result.reason is Reason.INJECTED
    assert (
        '- Tue 17 March 2026, asked "which islands are nice?": "Kauai and Maui are the islands for you."' in result.text
    )
    for request in (REQUEST, replace(OF_ANSWER, history=(Message(Role.ASSISTANT, "Try Kauai."),))):
        assert "Kauai" not in (await world.recaller().recall(request)).text


@pytest.mark.parametrize(
    "turn",
    [
        answered(""),
        answered(scope=Scope("alice", project_id="other")),
        answered(state=TurnState.DEAD),
        answered(user_text="which islands did you suggest"),
    ],
    ids=["erased", "other project", "dead", "repeats one"],
)
async def test_an_answer_that_is_gone_or_of_another_project_is_not_given(world: World, turn: LoggedTurn) -> None:
    world.turns = [turn]
    assert not (await world.recaller().recall(OF_ANSWER)).answers


async def test_a_deletion_takes_the_answers_before_it_also_within_a_tool_loop(world: World) -> None:
    world.turns = [answered(state=TurnState.WAITING)]
    recaller = world.recaller()
    assert (await recaller.recall(OF_ANSWER)).answers

    world.erased_until = NOW
    assert not (await recaller.recall(replace(OF_ANSWER, continues_loop=True))).answers
    assert not (await world.recaller().recall(OF_ANSWER)).answers


@pytest.mark.parametrize("trouble", [{"error": TurnLogError("down")}, {"delay": 30.0}], ids=["unavailable", "late"])
async def test_answers_that_cannot_be_read_take_nothing_from_the_memories(
    world: World, trouble: dict[str, Any]
) -> None:
    for kind, what in trouble.items():
        getattr(world, kind)["turns"] = what

    result = await world.recaller().recall(OF_ANSWER)

    assert [hit.memory.id for hit in result.hits] == ["m1"]
    assert not world.failures


ACME = Scope("acme", kind=OwnerKind.ORGANISATION)
OF_MEMBER = replace(REQUEST, others=(OtherOwner(ACME, 3, 0.4),))


@pytest.fixture
def member(world: World, make_hit: MakeHit) -> World:
    """Alice is a member of an organisation that has one memory."""
    rule = make_hit("Budgets above $5,000 need an approval", 0.9, memory_id="m1")
    world.hits[""].append(replace(rule, memory=replace(rule.memory, scope=ACME)))
    return world


async def test_other_owners_are_searched_too_and_the_block_says_whose_a_line_is(member: World) -> None:
    result = await member.recaller().recall(OF_MEMBER)

    lines = [line for line in result.text.splitlines() if line.startswith("- ")]
    assert lines == [
        "- (organisation acme) Budgets above $5,000 need an approval",
        "- User's budget for the Hawaii trip is $10,000",
    ]
    assert 'owner="organisation acme"' in (await member.recaller(render="xml").recall(OF_MEMBER)).text
    assert "approval" not in (await member.recaller().recall(REQUEST)).text


@pytest.mark.parametrize(
    "trouble",
    [{"error": StoreUnavailableError("down")}, {"error": RuntimeError("a bug")}, {"delay": 30.0}],
    ids=["unavailable", "bug", "late"],
)
async def test_what_other_owners_lack_takes_nothing_from_the_user(member: World, trouble: dict[str, Any]) -> None:
    for kind, what in trouble.items():
        getattr(member, kind)["search of org:acme"] = what
    result = await member.recaller().recall(OF_MEMBER)

    assert (result.reason, [hit.memory.scope for hit in result.hits]) == (Reason.INJECTED, [ALICE])
    assert len(member.failures) == ("error" in trouble and isinstance(trouble["error"], RuntimeError))


async def test_another_owners_memories_are_enough(member: World) -> None:
    member.hits[""] = member.hits[""][1:]

    assert (await member.recaller().recall(OF_MEMBER)).reason is Reason.INJECTED


async def test_what_other_owners_have_is_not_relevant_enough(member: World) -> None:
    """The user has no memory: it is the organisation's that are below the threshold."""
    member.hits[""] = member.hits[""][1:]
    strict = replace(OF_MEMBER, options=RecallOptions(limit=2, threshold=0.95))

    assert (await member.recaller().recall(strict)).reason is Reason.BELOW_THRESHOLD


async def test_an_owners_deletions_are_its_own(member: World) -> None:
    """Both memories have the same id; the organisation's is deleted."""
    tombstones = member.tombstones

    async def of(scope: Scope) -> Any:
        return (
            await tombstones(scope)
            if scope.owner == ACME.owner
            else SimpleNamespace(covers=lambda _: False, paused_since=None)
        )

    recaller = member.recaller()
    loop = replace(OF_MEMBER, loop_key="turn")
    assert len((await recaller.recall(loop)).hits) == 2
    member.deleted, member.tombstones = {"m1"}, of  # type: ignore[method-assign]
    for request in (OF_MEMBER, replace(loop, continues_loop=True)):
        assert [hit.memory.scope for hit in (await recaller.recall(request)).hits] == [ALICE]


async def _reported() -> None:
    """What was recalled until now is logged and counted."""
    await asyncio.sleep(REPORTED_AFTER_SECONDS)


async def test_the_result_is_reported_once(world: World) -> None:
    result = await world.recaller().recall(REQUEST)

    await _reported()
    assert world.results == [result]
    assert world.failures == []


async def test_the_query_is_asked_in_the_voice_of_the_memories(world: World) -> None:
    await world.recaller().recall(REQUEST)

    assert world.embedded == ["What's user's budget for the trip?"]


async def test_the_store_is_asked_for_more_than_is_wanted(world: World) -> None:
    wanted: dict[str, Any] = {"types": frozenset({MemoryType.SEMANTIC}), "memory_filter": parse_filter("category=work")}
    options = replace(REQUEST.options, **wanted)
    await world.recaller().recall(replace(REQUEST, options=options))

    (search,) = world.searches
    criteria = Criteria(ALICE, reach=Reach.RECALL, active_at=NOW, **wanted)
    assert search == (criteria, {"limit": 60, "text": "", "fresh": False, "pinned": True})


async def test_nothing_above_the_threshold_is_no_text(world: World) -> None:
    result = await world.recaller().recall(replace(REQUEST, options=RecallOptions(limit=2, threshold=0.9)))

    assert (result.reason, result.text, result.hits, result.tokens) == (Reason.BELOW_THRESHOLD, "", (), 0)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (replace(REQUEST, query="hello"), Reason.GREETING),
        (replace(REQUEST, query=""), Reason.NO_QUERY),
        (replace(REQUEST, has_place=False), Reason.NO_PLACE),
        (replace(REQUEST, signals=Signals(requires_tool=True)), Reason.TOOL),
        (replace(REQUEST, query="Capital of France?", signals=Signals(is_fact=True)), Reason.FACT),
        (replace(REQUEST, options=RecallOptions(limit=0, threshold=0.6)), Reason.DISABLED),
    ],
)
async def test_what_is_not_worth_a_search_is_not_searched(
    world: World, request_: RecallRequest, reason: Reason
) -> None:
    result = await world.recaller().recall(request_)

    assert result.reason is reason
    assert (world.embedded, world.searches) == ([], [])
    await _reported()
    assert world.results == [result]


async def test_a_long_query_is_cut_in_its_middle(world: World) -> None:
    await world.recaller(max_query_chars=21).recall(replace(REQUEST, query=f"no rent {'x' * 10_000} or theirs?"))

    assert world.embedded == ["no rent xx or theirs?"]


async def test_a_deleted_memory_is_not_shown(world: World) -> None:
    """It was the only one, so there is none, whatever the store still finds."""
    world.deleted = {"m1"}

    result = await world.recaller().recall(REQUEST)

    assert (result.reason, result.text, result.hits) == (Reason.NO_MEMORIES, "", ())


async def test_a_deleted_memory_stands_for_no_other_and_hides_none(world: World, make_hit: MakeHit) -> None:
    """A statement whose quote is deleted, a quote whose new value is, and an episode of what a deleted fact replaced."""
    old = make_hit("my budget was 10,000", 0.9, memory_id="old", form="quote", outdated_by=["new"])
    episode = make_hit("They spoke of Bali", 0.9, memory_id="e", memory_type=MemoryType.EPISODIC, turn_ids=["t1"])
    world.hits[""] = [
        *(make_hit("User has two children", 0.9, memory_id="s", quote="q"), old, episode),
        make_hit("we have two kids", 0.3, memory_id="q", form="quote"),
        make_hit("now it's 15,000", 0.3, memory_id="new", form="quote"),
        make_hit("The trip goes to Rome", 0.3, memory_id="fact", turn_ids=["t2"], replaces=["t1"]),
    ]
    request = replace(REQUEST, options=RecallOptions(limit=5, threshold=0.6))
    assert sorted(hit.memory.id for hit in (await world.recaller().recall(request)).hits) == ["new", "old", "q"]

    world.deleted = {"q", "new", "fact"}
    result = await world.recaller().recall(request)
    assert sorted(hit.memory.id for hit in result.hits) == ["e", "old", "s"]
    assert {hit.memory.id for hit in result.ranking} == {"e", "old", "s"}


async def test_a_deleted_memory_makes_room_for_the_next(world: World, make_hit: MakeHit) -> None:
    world.hits[""].append(make_hit("User is vegan", 0.65, memory_id="m2"))
    request = replace(REQUEST, options=RecallOptions(limit=1, threshold=0.6))
    assert [hit.memory.id for hit in (await world.recaller().recall(request)).hits] == ["m1"]

    world.deleted = {"m1"}
    assert [hit.memory.id for hit in (await world.recaller().recall(request)).hits] == ["m2"]


async def test_a_memory_that_the_request_shows_is_not_repeated(world: World) -> None:
    request = replace(REQUEST, visible=("My budget for the Hawaii trip is $10,000", REQUEST.query))

    assert (await world.recaller().recall(request)).reason is Reason.ALREADY_VISIBLE


async def test_a_long_conversation_may_be_searched_for_longer_than_the_deadline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread, and behind those of other requests."""
    late: list[bool] = []

    async def run(work: Callable[[], Any]) -> Any:
        await asyncio.sleep(0.3)
        late.append(True)
        return work()

    monkeypatch.setattr("semrouter_memory.recall.recaller.LARGE_BODIES", SimpleNamespace(run=run))
    request = replace(REQUEST, visible=("The weather is fine. " * 20_000, "My budget for the Hawaii trip is $10,000"))

    assert (await world.recaller().recall(request)).reason is Reason.ALREADY_VISIBLE
    assert late


LONG = "User's notes on Hawaii: " + "hotels " * 600


@pytest.mark.parametrize(
    ("contents", "deleted", "reason"),
    [
        ({}, "", Reason.NO_MEMORIES),
        ({"gone": 0.9}, "gone", Reason.NO_MEMORIES),
        ({"far": 0.1}, "", Reason.BELOW_THRESHOLD),
        ({"far": 0.1, "gone": 0.9}, "gone", Reason.BELOW_THRESHOLD),
        ({"My dog is called Rex": 0.9}, "", Reason.ALREADY_VISIBLE),
        ({"My dog is called Rex": 0.9, "far": 0.1}, "", Reason.ALREADY_VISIBLE),
        ({LONG: 0.9}, "", Reason.OVER_BUDGET),
        ({LONG: 0.9, "My dog is called Rex": 0.8, "far": 0.1}, "", Reason.OVER_BUDGET),
        ({LONG: 0.1}, "", Reason.BELOW_THRESHOLD),
        ({LONG: 0.9, "near": 0.8}, "", Reason.INJECTED),
    ],
)
async def test_the_reason_names_what_kept_the_memories_out(
    world: World, make_hit: MakeHit, contents: dict[str, float], deleted: str, reason: Reason
) -> None:
    world.hits = {"": [make_hit(content, each, memory_id=content[:8]) for content, each in contents.items()]}
    world.deleted = {deleted}
    request = replace(REQUEST, visible=("My dog is called Rex. What's my budget?",))

    assert (await world.recaller().recall(request)).reason is reason


async def test_a_request_may_ask_for_another_format(world: World) -> None:
    request = replace(REQUEST, options=replace(REQUEST.options, render="xml"))
    recaller = world.recaller()

    plain, marked = await recaller.recall(REQUEST), await recaller.recall(request)
    assert "<memory id=" in marked.text
    assert "<memory id=" not in plain.text
    assert (plain.tokens, marked.tokens) == (len(plain.text.split()), len(marked.text.split()))


# -- history -----------------------------------------------------------------------------------------------------------


async def test_a_vague_query_is_completed_from_the_body(world: World) -> None:
    await world.recaller().recall(replace(REQUEST, query="How much?", history=HAWAII))

    assert world.embedded == ["How much? planning hawaii vacation"]


async def test_a_vague_query_is_completed_from_messages_of_its_own_turn(world: World) -> None:
    await world.recaller().recall(replace(REQUEST, query="How much?", unanswered=("Planning Hawaii vacation",)))

    assert world.embedded == ["How much? planning hawaii vacation"]


async def test_a_vague_query_is_completed_from_the_stored_chain(world: World) -> None:
    world.chain = {"alice r1": list(HAWAII)}
    result = await world.recaller().recall(replace(REQUEST, query="How much?", previous_response_id="r1"))

    assert world.embedded == ["How much? planning hawaii vacation"]
    assert "history" in result.steps_ms


async def test_the_chain_is_looked_up_within_the_owner(world: World) -> None:
    world.chain = {"bob r1": list(HAWAII)}
    await world.recaller().recall(replace(REQUEST, query="How much?", previous_response_id="r1"))

    assert world.embedded == ["How much?"]


async def test_the_chain_is_not_read_for_a_query_that_needs_none(world: World) -> None:
    world.error = {"history": AssertionError()}
    result = await world.recaller().recall(replace(REQUEST, previous_response_id="r1"))

    assert "history" not in result.steps_ms


@pytest.mark.parametrize("trouble", [{"error": {"history": TurnLogError("damaged")}}, {"delay": {"history": 5.0}}])
async def test_a_chain_that_is_not_at_hand_is_done_without(world: World, trouble: dict[str, Any]) -> None:
    world.__dict__.update(trouble)
    request = replace(REQUEST, query="How much?", previous_response_id="r1")
    result = await world.recaller(deadline_ms=200).recall(request)

    assert result.reason is Reason.INJECTED
    assert world.embedded == ["How much?"]


async def test_a_step_of_a_stored_chain_asks_the_chains_last_question(world: World) -> None:
    world.chain = {"alice r1": [*HAWAII, Message(Role.USER, "What's my budget?")]}
    result = await world.recaller().recall(replace(REQUEST, query="", previous_response_id="r1", continues_loop=True))

    assert world.embedded == ["What's user's budget?"]
    assert result.reason is Reason.INJECTED


async def test_a_step_of_a_stored_chain_reads_all_messages_of_its_turn(world: World) -> None:
    world.chain = {"alice r1": [Message(Role.USER, text) for text in ("Planning Hawaii vacation", "How much?")]}
    await world.recaller().recall(replace(REQUEST, query="", previous_response_id="r1", continues_loop=True))

    assert world.embedded == ["How much? planning hawaii vacation"]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"embed": UnavailableError("x", service=Service.EMBEDDING)}, Reason.EMBEDDING_FAILED),
        ({"search": StoreUnavailableError("x")}, Reason.STORE_UNAVAILABLE),
        ({"search": TimeoutError()}, Reason.TIMEOUT),
        ({"search": RuntimeError("x")}, Reason.INTERNAL),
        ({"embed": KeyError("x")}, Reason.INTERNAL),
        ({"tombstones": TurnLogError("x")}, Reason.INTERNAL),
    ],
)
async def test_a_failure_is_a_reason_and_no_text(world: World, error: dict[str, BaseException], reason: Reason) -> None:
    world.error = error
    result = await world.recaller().recall(REQUEST)

    assert (result.reason, result.text, result.hits) == (reason, "", ())
    await _reported()
    assert world.results == [result]
    assert bool(world.failures) is (reason is Reason.INTERNAL)


@pytest.mark.parametrize("step", ["embed", "search"])
async def test_a_slow_step_ends_at_the_deadline(world: World, step: str) -> None:
    world.delay = {step: 30}
    loop = asyncio.get_running_loop()
    started = loop.time()
    result = await world.recaller(deadline_ms=20).recall(REQUEST)

    assert (result.reason, result.text) == (Reason.TIMEOUT, "")
    assert loop.time() - started == pytest.approx(0.02)
    assert step in result.steps_ms
    assert world.cancelled == [step]


async def test_a_store_that_is_away_costs_no_embedding(world: World) -> None:
    world.available = False

    assert (await world.recaller().recall(REQUEST)).reason is Reason.STORE_UNAVAILABLE
    assert world.embedded == []


async def test_a_cancelled_request_ends_at_once_and_leaves_nothing_running(world: World) -> None:
    """Envoy resets the stream when the client goes away."""
    world.delay = {"search": 30, "rewrite": 30}
    recall = asyncio.create_task(world.recaller("always").recall(replace(REQUEST, history=HAWAII)))
    await asyncio.sleep(0.005)
    recall.cancel()

    with pytest.raises(asyncio.CancelledError):
        await recall
    await asyncio.sleep(0)
    assert sorted(world.cancelled) == ["rewrite", "search"]
    await _reported()
    assert world.results == []


# -- tool loops --------------------------------------------------------------------------------------------------------


LOOP = replace(REQUEST, loop_key="turn", continues_loop=True)


async def test_the_block_stays_the_same_in_a_tool_loop(world: World, make_hit: MakeHit) -> None:
    recaller = world.recaller()
    first = await recaller.recall(replace(REQUEST, loop_key="turn"))
    world.hits = {"": [make_hit("something new", 0.9)]}
    world.time.hold(540)
    second = await recaller.recall(replace(LOOP, visible=("User's budget for the Hawaii trip is $10,000",)))
    world.time.hold(540)
    third = await recaller.recall(LOOP)

    assert first.text == second.text == third.text
    assert third.reason is Reason.INJECTED
    assert len(world.searches) == 1


@pytest.mark.parametrize(
    ("steered", "told"),
    [
        (Steered(Steering.FORGOTTEN, ("m7", "m8")), "is deleted from their memories (2 deleted)"),
        (Steered(Steering.NOT_FOUND), "Nothing is deleted"),
        (Steered(Steering.REFUSED), "not enough to delete all"),
        (Steered(Steering.FAILED), "can ask again later"),
    ],
)
async def test_the_model_is_told_what_became_of_an_order(world: World, steered: Steered, told: str) -> None:
    """In each step of a tool loop, of which the last one answers the user; nothing else that is recalled is left out."""

    async def obey(request: RecallRequest) -> Steered | None:
        return None if request.continues_loop else steered

    phase = replace(world.recaller(), steers=cast("InWords", SimpleNamespace(obey=obey)))
    first = await phase.recall(replace(REQUEST, loop_key="turn"))
    second = await phase.recall(LOOP)
    assert told in first.text
    assert first.text == second.text
    assert "$10,000" in first.text
    assert strip_block(first.text).strip() == ""
    assert (first.steered, second.steered) == (steered, None)

    world.hits = {}
    assert told in (await phase.recall(replace(REQUEST, loop_key="another turn"))).text
    assert told not in (await phase.recall(replace(LOOP, loop_key="a third"))).text


async def test_no_block_at_the_first_step_is_none_later(world: World, make_hit: MakeHit) -> None:
    world.hits = {}
    recaller = world.recaller()
    await recaller.recall(replace(REQUEST, loop_key="turn"))
    world.hits = {"": [make_hit("something new", 0.9)]}

    assert (await recaller.recall(LOOP)).reason is Reason.NO_MEMORIES


async def test_the_same_question_in_a_new_turn_is_searched_again(world: World, make_hit: MakeHit) -> None:
    """ "What's my budget?" opens two conversations with the same key; a memory stored in between must be found."""
    recaller = world.recaller()
    first = replace(REQUEST, loop_key="turn")
    await recaller.recall(first)
    world.hits[""].append(make_hit("User's budget for Japan is $5,000", 0.9))

    assert len((await recaller.recall(first)).hits) == 2
    assert len((await recaller.recall(LOOP)).hits) == 2


async def test_what_is_deleted_during_a_loop_leaves_the_block(world: World, make_hit: MakeHit) -> None:
    world.hits[""].append(make_hit("User is vegan", 0.9, memory_id="m2"))
    recaller = world.recaller()
    await recaller.recall(replace(REQUEST, loop_key="turn"))

    world.deleted = {"m2"}
    assert [hit.memory.id for hit in (await recaller.recall(LOOP)).hits] == ["m1"]
    world.deleted = {"m1", "m2"}
    assert (await recaller.recall(LOOP)).reason is Reason.NO_MEMORIES
    assert len(world.searches) == 1


async def test_a_failed_step_decides_nothing_for_the_later_ones(world: World) -> None:
    world.error = {"search": StoreUnavailableError("x")}
    recaller = world.recaller()
    await recaller.recall(replace(REQUEST, loop_key="turn"))
    world.error = {}

    assert (await recaller.recall(LOOP)).reason is Reason.INJECTED


@pytest.mark.parametrize(
    "other",
    [
        replace(LOOP, scope=Scope("bob")),
        replace(LOOP, scope=Scope("alice", "project")),
        replace(LOOP, loop_key="other"),
        replace(LOOP, options=RecallOptions(limit=1, threshold=0.6)),
        replace(LOOP, options=replace(LOOP.options, strategy="hybrid")),
        replace(LOOP, options=replace(LOOP.options, render="xml")),
        replace(LOOP, options=replace(LOOP.options, pinned_tokens=0)),
        replace(LOOP, options=replace(LOOP.options, memory_filter=parse_filter("category=work"))),
    ],
)
async def test_another_turn_is_searched_for_itself(world: World, other: RecallRequest) -> None:
    recaller = world.recaller()
    await recaller.recall(replace(REQUEST, loop_key="turn"))
    await recaller.recall(other)

    assert len(world.searches) == 2


@pytest.mark.parametrize("said", [["What's my budget?"], ["We leave on Friday.", "What's my budget?"]], ids=len)
async def test_a_stored_chains_loop_keeps_the_block_of_its_first_step(world: World, said: list[str]) -> None:
    """Its later steps carry no user message; the key comes from the chain and is the one of the first step's body."""
    turn = [Message(Role.USER, text) for text in said]
    world.chain = {"alice r1": [*HAWAII, *turn]}
    recaller = world.recaller()
    await recaller.recall(replace(REQUEST, query=said[-1], loop_key=transcript_hash(turn)))
    step = replace(REQUEST, query="", previous_response_id="r1", loop_key="of nothing", continues_loop=True)

    assert (await recaller.recall(step)).reason is Reason.INJECTED
    assert len(world.searches) == 1


# -- rewriting ---------------------------------------------------------------------------------------------------------


VAGUE = replace(REQUEST, query="How much?", history=HAWAII)


@pytest.fixture
def rewritten(world: World, make_hit: MakeHit) -> World:
    world.answer = "What is my budget for the Hawaii vacation?"
    world.hits = {"How much": [make_hit("plain", 0.7)], "budget": [make_hit("rewritten", 0.9)]}
    return world


async def test_a_rewrite_adds_what_it_finds(rewritten: World) -> None:
    result = await rewritten.recaller("vague").recall(VAGUE)

    assert [hit.memory.content for hit in result.hits] == ["rewritten", "plain"]
    assert rewritten.embedded[1] == "What is user's budget for the Hawaii vacation?"
    assert "rewrite" in result.steps_ms


async def test_the_rewrite_has_its_own_deadline(rewritten: World) -> None:
    rewritten.delay = {"rewrite": 0.06}
    result = await rewritten.recaller("vague", deadline_ms=30, rewrite_deadline_ms=2_000).recall(VAGUE)

    assert len(result.hits) == 2


@pytest.mark.parametrize("mode", ["vague", "always", "hyde"])
@pytest.mark.parametrize(
    "trouble",
    [
        {"delay": {"rewrite": 30.0}},
        {"delay": {"rewrite": 30.0}, "stubborn": True},
        {"delay": {"rewrite": 0.01}, "error": {"rewrite": RuntimeError("x")}},
        {"error": {"rewrite": RuntimeError("x")}},
        {"error": {"rewrite": asyncio.CancelledError()}},
        {"error": {"rewrite": TimeoutError()}},
        {"blocks": {"rewrite": 0.2}, "delay": {"embed": 0.01}, "answer": ""},
        {"answer": "The weather in Paris is lovely"},
        {"answer": "What is my budget?\n" * 1_000},
        {"answer": "\ud800"},
        {"answer": None},
        {"answer": ""},
    ],
    ids=str,
)
async def test_whatever_the_rewrite_does_the_plain_result_stands(
    rewritten: World, make_hit: MakeHit, trouble: dict[str, Any], mode: Mode
) -> None:
    rewritten.__dict__.update(trouble)
    if mode == "hyde":
        rewritten.hits = {"How much": [make_hit("plain", 0.7)]}
        request = replace(VAGUE, options=RecallOptions(limit=2, threshold=0.71))
    else:
        request = VAGUE
    recall = rewritten.recaller(mode, deadline_ms=60, rewrite_deadline_ms=20).recall(request)
    result = await asyncio.wait_for(recall, 0.9)

    assert [hit.memory.content for hit in result.ranking] == ["plain"]
    is_late = trouble.get("delay", {}).get("rewrite", 0.0) > 1.0 or "blocks" in trouble
    unanswered = Reason.REWRITE_TIMEOUT if is_late else Reason.BELOW_THRESHOLD
    assert result.reason is (unanswered if mode == "hyde" else Reason.INJECTED)
    assert "rewrite" in result.steps_ms
    assert rewritten.lates == (is_late and "blocks" not in trouble)


async def test_what_comes_after_a_rewrite_has_a_deadline(rewritten: World) -> None:
    """The plain path's, of which a part is kept."""
    rewritten.delay = {"rewrite": 0.02, "tombstones": 30}
    recall = rewritten.recaller("vague", deadline_ms=40).recall(VAGUE)

    assert (await asyncio.wait_for(recall, 5)).reason is Reason.TIMEOUT


async def test_a_request_that_is_cancelled_during_the_rewrite_cancels_it(rewritten: World) -> None:
    rewritten.delay = {"rewrite": 30}
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rewritten.recaller("vague", rewrite_deadline_ms=9_000).recall(VAGUE), 0.1)
    await asyncio.sleep(0)
    assert rewritten.cancelled == ["rewrite"]


@pytest.mark.parametrize(
    ("plain", "delay", "reason"),
    [
        ([0.1], 30.0, Reason.REWRITE_TIMEOUT),
        ([0.1], 0.0, Reason.BELOW_THRESHOLD),
        ([], 30.0, Reason.NO_MEMORIES),
        ([], 0.0, Reason.NO_MEMORIES),
        ([0.7], 30.0, Reason.INJECTED),
    ],
)
@pytest.mark.parametrize("mode", ["vague", "hyde"])
async def test_the_rewrites_delay_is_told_apart_from_recalls_and_from_a_user_without_memories(
    world: World, make_hit: MakeHit, mode: Mode, plain: list[float], delay: float, reason: Reason
) -> None:
    world.hits = {"": [make_hit("plain", relevance) for relevance in plain]}
    world.answer, world.delay = "", {"rewrite": delay}
    recall = world.recaller(mode, deadline_ms=2_000, rewrite_deadline_ms=20).recall(VAGUE)

    assert (await asyncio.wait_for(recall, 5)).reason is reason


async def test_a_setting_that_cannot_be_read_recalls_nothing(world: World) -> None:
    request = replace(REQUEST, options=replace(REQUEST.options, unreadable=True))

    assert (await world.recaller().recall(request)).reason is Reason.UNREADABLE_SETTING
    assert world.searches == []


async def test_the_plain_path_keeps_its_deadline_beside_a_rewrite(rewritten: World) -> None:
    rewritten.delay = {"search": 30, "rewrite": 30}
    recall = rewritten.recaller("vague", deadline_ms=20).recall(VAGUE)

    assert (await asyncio.wait_for(recall, 5)).reason is Reason.TIMEOUT
    await asyncio.sleep(0)
    assert sorted(rewritten.cancelled) == ["rewrite", "search"]


async def test_a_self_contained_query_is_not_rewritten(rewritten: World) -> None:
    rewritten.error = {"rewrite": AssertionError()}
    result = await rewritten.recaller("vague").recall(replace(REQUEST, history=HAWAII))

    assert "rewrite" not in result.steps_ms
    assert len(rewritten.searches) == 1
