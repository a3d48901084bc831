"""How `eval retrieval` stores and asks: ids, times, what recall is asked, and the sweep."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from semrouter_memory.config import Config, MemoryConfig, OwnerIndexConfig
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.evaluation.cases import CaseMessage, case_of
from semrouter_memory.evaluation.retrieval import Asked, Figures, LabelledQuery, RetrievalCase, Scored
from semrouter_memory.evaluation.retrieval_run import (
    THRESHOLDS,
    Owner,
    RetrievalRun,
    asked_of,
    request_of,
)
from semrouter_memory.evaluation.running import PlayClock, clock_of, played_pipelines
from semrouter_memory.model import Hit, Message, Reason, RecallResult, Role, Scope, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.store.in_memory import InMemoryStore
from tests.hashed import HashedEmbedder

MARCH = "2026-03-15T10:00:00Z"
TEA = "User's favourite tea is oolong"


def user(*memories: tuple[str, str | None], queries: Sequence[dict[str, Any]] = ()) -> RetrievalCase:
    known = [
        {"id": f"m{at}", "type": "semantic", "content": content, "created_at": created_at}
        for at, (content, created_at) in enumerate(memories, start=1)
    ]
    asked = [{"id": f"q{at}", "kind": "direct"} | query for at, query in enumerate(queries)]
    return case_of(RetrievalCase, {"user": "same name", "memories": known, "queries": asked})


def in_memory() -> InMemoryStore:
    return InMemoryStore(dimension=HashedEmbedder().dimension)


async def stored(*users: RetrievalCase) -> list[Owner]:
    async with played_pipelines(HashedEmbedder(), Config(), store=in_memory()) as pipelines:
        return await RetrievalRun(pipelines).store("set", users)


async def played(
    memory: MemoryConfig, *users: RetrievalCase, embedder: Embedder | None = None
) -> tuple[list[Asked], dict[float, Figures], PlayClock]:
    config = Config().model_copy(update={"memory": memory})
    async with played_pipelines(embedder or HashedEmbedder(), config, store=in_memory()) as pipelines:
        run = RetrievalRun(pipelines)
        owners = await run.store("set", users)
        return await run.ask("set", owners), await run.sweep("set", owners), clock_of(pipelines.adapters)


async def test_stored_ids_sort_in_the_order_of_the_file() -> None:
    (owner,) = await stored(user(*((f"User owns {count} cats", MARCH) for count in range(12))))
    ids = [memory.id for memory in owner.memories]
    assert ids == sorted(ids)
    assert [owner.names[each] for each in ids] == [f"m{at}" for at in range(1, 13)]


async def test_each_line_is_an_owner_of_its_own_whatever_its_name_is() -> None:
    first, second = await stored(user((TEA, MARCH)), user((TEA, MARCH)))
    assert first.scope.owner != second.scope.owner
    assert not first.names.keys() & second.names.keys()


async def test_queries_are_asked_a_day_after_the_users_newest_memory() -> None:
    (owner,) = await stored(user((TEA, MARCH), ("User is 30", "2026-03-01T00:00:00Z")))
    assert owner.now == datetime(2026, 3, 16, 10, tzinfo=UTC)


async def test_what_has_no_date_is_as_old_as_the_users_oldest_memory() -> None:
    (owner,) = await stored(user((TEA, MARCH), ("User is 30", None), ("User is 31", "2026-03-20T00:00:00Z")))
    at = datetime(2026, 3, 15, 10, tzinfo=UTC)
    assert (owner.memories[1].created_at, owner.memories[1].observed_at) == (at, at)


async def test_a_user_without_any_date_has_one_all_the_same() -> None:
    dated, empty = await stored(user((TEA, None), ("User is 30", None)), user())
    assert len({memory.created_at for memory in dated.memories}) == 1
    assert dated.now == dated.memories[0].created_at + timedelta(days=1)
    assert empty.now == dated.now


def test_recall_is_asked_what_a_chat_request_with_that_history_asks() -> None:
    history = (CaseMessage(Role.USER, "I like tea"), CaseMessage(Role.ASSISTANT, "Noted"))
    query = LabelledQuery(id="q", kind="vague", text="which one?", history=history, gold=frozenset())
    config = Config().memory
    request = request_of(Scope("u"), query.text, query.history, config)
    assert (request.query, request.history) == (
        "which one?",
        tuple(Message(each.role, each.content) for each in history),
    )
    assert request.visible == ("I like tea", "Noted", "which one?")
    assert request.options.limit == config.default_retrieval_limit
    assert request.options.threshold == config.default_similarity_threshold


async def test_what_is_found_has_the_names_of_the_file_and_the_time_of_each_step() -> None:
    asked = {"text": "my favourite tea is oolong", "gold": ["m2"]}
    (found,), _, clock = await played(Config().memory, user(("User is 30", MARCH), (TEA, MARCH), queries=[asked]))
    assert found.ranking[0].id == "m2"
    assert {"embed", "search", "total"} <= found.steps_ms.keys()
    assert clock.time == datetime(2026, 3, 16, 10, tzinfo=UTC)


async def test_the_sweep_asks_with_each_threshold_and_nothing_else_changes() -> None:
    asked = {"text": "my favourite tea?", "gold": ["m1"]}
    memory = Config().memory.model_copy(update={"default_similarity_threshold": 1.0})
    (found,), points, _ = await played(memory, user((TEA, MARCH), queries=[asked]))
    assert tuple(points) == THRESHOLDS
    assert (found.injected, points[0.0]["recall"], points[1.0]["recall"]) == ((), 1, 0)


async def test_a_far_deadline_stands_in_for_the_configured_one() -> None:
    class Letting(HashedEmbedder):
        """Lets everything else run first, a deadline that has passed included."""

        async def embed_query(self, text: str) -> Vector:
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().embed_query(text)

    recall = Config().memory.recall.model_copy(update={"deadline_ms": 0})
    memory = Config().memory.model_copy(update={"recall": recall})
    told = user((TEA, MARCH), queries=[{"text": "my favourite tea?", "gold": ["m1"]}])
    (found,), _, _ = await played(memory, told, embedder=Letting())
    assert found.failed == ""
    assert found.ranking


async def test_a_failed_recall_is_told_from_one_that_found_nothing() -> None:
    class Failing(HashedEmbedder):
        async def embed_query(self, text: str) -> Vector:
            if text == asked:
                raise UnavailableError("no", service=Service.EMBEDDING)
            return await super().embed_query(text)

    asked = "my favourite tea?"
    told = user((TEA, MARCH), queries=[{"text": asked, "gold": ["m1"]}, {"text": "thanks!", "gold": []}])
    found, _, _ = await played(Config().memory, told, embedder=Failing())
    assert [each.failed for each in found] == ["embedding_failed", ""]


async def test_a_memory_that_two_searches_found_ranks_once_where_it_was_first() -> None:
    (owner,) = await stored(user((TEA, MARCH), ("User is 30", MARCH)))
    tea, age = owner.memories
    result = RecallResult(
        reason=Reason.INJECTED, ranking=(Hit(tea, 0.9, 0.8), Hit(age, 0.5, 0.5), Hit(tea, 0.4, 0.4)), hits=()
    )
    query = LabelledQuery(id="q", kind="direct", text="tea?", gold=frozenset())
    assert asked_of(query, result, owner, total_ms=1.0).ranking == (Scored("m1", 0.8), Scored("m2", 0.5))


async def test_without_milvus_lite_an_exact_search_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    memory = Config().memory.model_copy(update={"owner_index": OwnerIndexConfig(enabled=False)})
    async with played_pipelines(HashedEmbedder(), Config().model_copy(update={"memory": memory})) as pipelines:
        assert isinstance(pipelines.adapters.store, InMemoryStore)
        assert pipelines.adapters.owner_indexes is None


async def test_active_users_memories_are_indexed_as_in_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    told = user((TEA, MARCH), queries=[{"text": "my favourite tea?", "gold": ["m1"]}])
    async with played_pipelines(HashedEmbedder(), Config()) as pipelines:
        run = RetrievalRun(pipelines)
        await run.ask("set", await run.store("set", [told]))
        assert pipelines.adapters.owner_indexes is not None
        assert pipelines.adapters.owner_indexes.owners == 1
