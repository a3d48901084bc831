"""Whatever a search gives, only memories of this very user are deleted, and no more than so many."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.app.adapters import SystemClock
from semrouter_memory.config import RecallConfig
from semrouter_memory.deletion.in_words import MAX_FORGOTTEN, InWords
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import (
    Hit,
    Memory,
    MemoryType,
    Message,
    OwnerKind,
    RecallOptions,
    RecallRequest,
    Role,
    Scope,
    Steered,
    Steering,
)
from tests.memory_service import SilentObserver

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ALICE = Scope("alice")
OWNERS = [ALICE, Scope("bob"), Scope("alice", kind=OwnerKind.ORGANISATION), Scope("alice", kind=OwnerKind.AGENT)]
ORDER = "Forget what I told you about my salary."
REQUEST = RecallRequest(
    scope=ALICE,
    query=ORDER,
    options=RecallOptions(limit=5, threshold=0.6, session="here"),
    loop_key="k",
    retained=True,
)


@dataclass
class Parts:
    """A search that gives whatever it likes, and what is deleted."""

    hits: Sequence[Hit] = ()
    paused_since: datetime | None = None
    refuses_after: int = 1_000
    gone: frozenset[str] = frozenset()
    hidden: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)

    async def search_fresh(self, _criteria: Any, text: str, **__: Any) -> Sequence[Hit]:
        self.searched.append(text)
        return self.hits

    async def tombstones(self, _: Scope) -> "Parts":
        return self

    def covers(self, memory: Memory) -> bool:
        return memory.id in self.gone

    async def hide(self, memory: Memory) -> None:
        if len(self.hidden) >= self.refuses_after:
            raise StoreUnavailableError("full")
        self.hidden.append(memory.id)

    async def tombstone(self, _: Scope, memory_id: str) -> None:
        self.deleted.append(memory_id)

    def obey(self, threshold: float = 0.98) -> Any:
        return asyncio.run(_obeyed(self.steers(threshold), REQUEST))

    def steers(self, threshold: float = 0.98) -> InWords:
        return InWords(
            search=cast("Any", self),
            deletion=cast("Any", self),
            turn_log=cast("Any", self),
            observer=SilentObserver(),
            clock=SystemClock(),
            config=RecallConfig(forget_threshold=threshold, forget_deadline_ms=10_000),
        )


async def _obeyed(steers: InWords, request: RecallRequest) -> Any:
    steered = await steers.obey(request)
    await steers.settle()
    return steered


def hit(number: int, owner: Scope = ALICE, relevance: float = 0.99, *, session: str = "") -> Hit:
    memory = Memory(
        id=f"m{number}",
        scope=owner,
        type=MemoryType.SEMANTIC,
        content="My salary is 900 a week",
        source="conversation",
        metadata={"within": {"session": session}} if session else {},
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return Hit(memory, similarity=0.7, relevance=relevance)


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.floats(0, 1)), max_size=60))
def test_nothing_of_another_owner_is_deleted(found: list[tuple[Scope, float]]) -> None:
    parts = Parts([hit(number, *each) for number, each in enumerate(found)])
    steered = parts.obey()
    own = {f"m{number}" for number, (owner, _) in enumerate(found) if owner == ALICE}
    assert set(parts.hidden) == set(parts.deleted) == set(steered.forgotten) <= own
    assert len(parts.hidden) <= MAX_FORGOTTEN


def test_what_holds_in_another_session_is_left() -> None:
    parts = Parts([hit(1, session="there"), hit(2, session="here")])
    assert parts.obey().forgotten == ("m2",)


def test_what_is_deleted_already_is_not_deleted_again() -> None:
    parts = Parts([hit(1), hit(2)], gone=frozenset({"m1"}))
    assert parts.obey().forgotten == ("m2",)


async def test_a_request_that_is_sent_again_reaches_only_what_was_written_since() -> None:
    """Without the first memory, the second looks more relevant."""
    parts = Parts([hit(1), hit(2, relevance=0.9)])
    steers = parts.steers()
    assert (await _obeyed(steers, REQUEST)).forgotten == ("m1",)
    parts.hits = [hit(2)]
    assert (await _obeyed(steers, REQUEST)).forgotten == ("m1",), "as before"
    new = hit(3)
    parts.hits = [hit(2), replace(new, memory=replace(new.memory, updated_at=datetime.now(UTC)))]
    assert (await _obeyed(steers, REQUEST)).forgotten == ("m1", "m3")
    assert parts.hidden == ["m1", "m3"]


async def test_what_failed_is_done_when_the_request_is_sent_again() -> None:
    parts = Parts([hit(1)], refuses_after=0)
    steers = parts.steers()
    assert (await _obeyed(steers, REQUEST)).outcome is Steering.FAILED
    parts.refuses_after = 1
    assert (await _obeyed(steers, REQUEST)).forgotten == ("m1",)


def test_nothing_is_forgotten_for_a_user_who_paused() -> None:
    parts = Parts([hit(1)], paused_since=NOW)
    assert parts.obey().outcome is Steering.NOT_FOUND
    assert parts.hidden == []


async def test_of_a_long_question_before_no_more_is_read_than_of_a_question() -> None:
    """Reading a megabyte of pasted text takes a fifth of a second, in which no other request goes on."""
    pasted = "My salary is 900 a week. " * 500
    history = (Message(Role.USER, pasted), Message(Role.ASSISTANT, "My salary is 900 a week"))
    parts = Parts([hit(1)])
    request = replace(REQUEST, query="That's not true any more.", history=history)
    assert (await _obeyed(parts.steers(), request)).forgotten == ("m1",)
    assert parts.searched == [pasted[: RecallConfig().max_query_chars]]


@pytest.mark.parametrize(
    ("answer", "forgotten"),
    [
        ("You work at Acme as a plumber.", True),
        ("You work there as a plumber.", True),
        ("You work at Acme.", False),  # the question says as much
        ("You are a teacher.", False),
    ],
)
async def test_what_is_no_more_true_is_the_one_that_the_answer_tells(answer: str, *, forgotten: bool) -> None:
    told = (hit(number) for number in (1, 2))
    parts = Parts([replace(each, memory=replace(each.memory, content="I work at Acme as a plumber")) for each in told])
    history = (Message(Role.USER, "Do I work at Acme?"), Message(Role.ASSISTANT, answer))
    request = replace(REQUEST, query="That's not true any more.", history=history)
    expected = Steered(Steering.FORGOTTEN, ("m1",)) if forgotten else None
    assert await _obeyed(parts.steers(), request) == expected


def test_a_threshold_of_one_switches_it_off() -> None:
    parts = Parts([hit(1, relevance=0.999)])
    parts.obey(threshold=1.0)
    assert parts.hidden == []


@pytest.mark.parametrize("refuses_after", [0, 1])
def test_what_is_hidden_before_a_failure_is_deleted_and_told(refuses_after: int) -> None:
    parts = Parts([hit(1), hit(2)], refuses_after=refuses_after)
    steered = parts.obey()
    assert steered.outcome is (Steering.FORGOTTEN if refuses_after else Steering.FAILED)
    assert parts.deleted == list(steered.forgotten) == parts.hidden
    assert len(parts.hidden) == refuses_after
