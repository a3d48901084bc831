"""Recall with the real model, the real turn log and the store in memory, at the default settings."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from semrouter_memory.config import EmbeddingConfig, MemoryConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import (
    EmbeddedMemory,
    Memory,
    MemoryType,
    Message,
    Reach,
    Reason,
    RecallOptions,
    RecallRequest,
    RecallResult,
    Role,
    Scope,
    Tombstone,
)
from semrouter_memory.ports import Observer
from semrouter_memory.recall.pipeline import Recaller
from semrouter_memory.recall.searching import Searcher
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from semrouter_memory.store.in_memory import InMemoryStore

pytest_plugins = ("tests.model_fixture",)

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ALICE, BOB = Scope("alice"), Scope("bob")
BUDGET = "User's budget for the Hawaii trip is $10,000"
FACTS = (
    BUDGET,
    "User is allergic to peanuts",
    "User lives in Berlin",
    "User's name is Alice",
    "User works as a nurse at St Mary hospital",
    "User prefers short answers without bullet points",
    "User's dog is called Rex",
    "User's sister is getting married in June",
    "User drives an old blue Volvo",
    "User is learning Spanish",
    "To deploy payment-service: run npm build, then docker push",
    "User pays 900 euros a month in rent",
    "User goes climbing on Tuesdays",
)
DEFAULTS = MemoryConfig()


class FixedClock:
    def now(self) -> datetime:
        return NOW


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(EmbeddingConfig(), model_directory)


@pytest.fixture
def turn_log(tmp_path: Path) -> Iterator[SqliteTurnLog]:
    log = SqliteTurnLog(tmp_path / "turns.db", clock=FixedClock())
    yield log
    log.close()


@pytest.fixture
async def store(embedder: OnnxEmbedder) -> InMemoryStore:
    store = InMemoryStore(dimension=embedder.dimension)
    vectors = await embedder.embed_passages(FACTS)
    await store.upsert(
        ALICE,
        [EmbeddedMemory(memory(content), vector) for content, vector in zip(FACTS, vectors, strict=True)],
    )
    return store


@pytest.fixture
def recaller(embedder: OnnxEmbedder, store: InMemoryStore, turn_log: SqliteTurnLog) -> Recaller:
    observer = SimpleNamespace(recall_finished=lambda result: None, exchange_failed=lambda error: None)
    # The limit of time is another test's; a busy machine must not decide this one.
    config = DEFAULTS.recall.model_copy(update={"deadline_ms": 10_000})
    return Recaller(
        embedder=embedder,
        searcher=Searcher(embedder=embedder, reader=store, shelves=None, clock=FixedClock(), config=config),
        turn_log=turn_log,
        observer=cast("Observer", observer),
        clock=FixedClock(),
        config=config,
    )


def memory(content: str) -> Memory:
    kind = MemoryType.PROCEDURAL if content.startswith("To ") else MemoryType.SEMANTIC
    return Memory(
        id=f"mem_{FACTS.index(content):02}",
        scope=ALICE,
        type=kind,
        content=content,
        source="conversation",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )


def asked(query: str, history: Sequence[Message] = (), *, scope: Scope = ALICE) -> RecallRequest:
    options = RecallOptions(limit=DEFAULTS.default_retrieval_limit, threshold=DEFAULTS.default_similarity_threshold)
    return RecallRequest(scope=scope, query=query, options=options, history=tuple(history), visible=(query,))


def contents(result: RecallResult) -> list[str]:
    return [hit.memory.content for hit in result.hits]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What's my budget for the trip?", BUDGET),
        ("How much can I spend in Hawaii?", BUDGET),
        ("Am I allergic to anything?", "User is allergic to peanuts"),
        ("Where do I live?", "User lives in Berlin"),
        ("What's my name?", "User's name is Alice"),
        ("How do I deploy payment-service?", "To deploy payment-service: run npm build, then docker push"),
    ],
)
async def test_what_the_user_once_said_is_found_at_the_default_settings(
    recaller: Recaller, query: str, wanted: str
) -> None:
    result = await recaller.recall(asked(query))

    assert result.reason is Reason.INJECTED
    assert contents(result)[0] == wanted
    assert f"- {wanted}\n" in result.text


@pytest.mark.parametrize(
    "query",
    ["write a quicksort in Python", "What is the boiling point of water?", "Translate 'good night' into French"],
)
async def test_an_unrelated_question_gets_nothing(recaller: Recaller, query: str) -> None:
    assert (await recaller.recall(asked(query))).reason is Reason.BELOW_THRESHOLD


async def test_a_vague_question_is_understood_from_the_conversation(recaller: Recaller) -> None:
    history = [
        Message(Role.USER, "Planning Hawaii vacation"),
        Message(Role.ASSISTANT, "Sounds great!"),
        Message(Role.USER, "Looking at hotels"),
        Message(Role.ASSISTANT, "On which island?"),
    ]

    assert contents(await recaller.recall(asked("How much?", history))) == [BUDGET]
    assert contents(await recaller.recall(asked("How much?"))) == []


async def test_another_user_gets_nothing(recaller: Recaller) -> None:
    result = await recaller.recall(asked("What's my budget for the trip?", scope=BOB))

    assert result.reason is Reason.BELOW_THRESHOLD


async def test_what_was_deleted_is_not_shown_while_the_store_still_has_it(
    recaller: Recaller, turn_log: SqliteTurnLog
) -> None:
    await turn_log.bury(Tombstone(scope=ALICE, at=NOW, memory_id=memory(BUDGET).id, reach=Reach.EXACT))

    assert BUDGET not in contents(await recaller.recall(asked("What's my budget for the trip?")))
