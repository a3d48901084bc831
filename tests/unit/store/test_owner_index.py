"""An owner index: what it says of its memories, and what writes make of it."""

from dataclasses import fields, replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.terms import terms
from semrouter_memory.model import Criteria, EmbeddedMemory, Memory, MemoryType, Reach, Scope
from semrouter_memory.store.index_record import KINDS
from semrouter_memory.store.owner_index import OwnerIndex, build_index, unlabelled
from tests.memories import NOW, embedded, memory, vector

ALICE = Scope("alice")
WORK = Scope("alice", "work")
HOME = Scope("alice", "home")


def at(minute: int, memory_id: str, scope: Scope = ALICE, **more: object) -> Memory:
    return memory(scope, memory_id, created_at=NOW + timedelta(minutes=minute), **more)  # type: ignore[arg-type]


def index_of(*memories: Memory) -> OwnerIndex:
    return build_index("user:alice", [embedded(each, seed) for seed, each in enumerate(memories)], label=length_of)


def length_of(one: Memory) -> int:
    return len(one.content)


def shown(index: OwnerIndex) -> list[Memory]:
    return [index.memory(position) for position in range(len(index))]


def ids(index: OwnerIndex, scope: Scope, types: frozenset[MemoryType] | None = None, *, hours: float = 0) -> list[str]:
    positions = index.positions(
        Criteria(scope, reach=Reach.RECALL, active_at=NOW + timedelta(hours=hours), types=types)
    )
    return [index.memory(int(position)).id for position in positions]


# -- what it says ------------------------------------------------------------------------------------------------------


def test_memories_stand_in_the_order_of_creation_and_id() -> None:
    index = index_of(at(2, "b"), at(1, "z"), at(2, "a"), at(0, "y"))
    assert [each.id for each in shown(index)] == ["y", "z", "a", "b"]
    assert index.created_at.tolist() == sorted(index.created_at.tolist())


def test_a_memory_comes_back_as_it_was() -> None:
    one = replace(
        at(0, "mem_1", Scope("alice", "wörk")),
        type=MemoryType.EPISODIC,
        session_id="ses_1",
        expires_at=NOW + timedelta(days=1),
        importance=0.25,
        metadata={"turn_ids": ["turn_1"], "nested": {"a": None, "b": [1, 2.5, "x"]}},
    )
    assert shown(index_of(one)) == [one]


@pytest.mark.parametrize("odd", ["\ud800", "a\x00b", '"\\', "x" * 10_000, "😀"])
def test_ids_may_be_anything(odd: str) -> None:
    one = replace(at(0, odd, Scope("alice", odd)), session_id=odd)
    assert shown(index_of(one)) == [one]
    assert ids(index_of(one), Scope("alice", odd)) == [odd]
    assert not len(index_of(one).without([odd]))


def test_ids_that_are_no_unicode_text_are_different_ones() -> None:
    index = index_of(at(0, "?"), at(1, "\ud800"), at(2, "\ud801"))
    assert [each.id for each in shown(index.without(["?"]))] == ["\ud800", "\ud801"]
    assert [each.id for each in shown(index.without(["\ud800"]))] == ["?", "\ud801"]


def test_content_that_is_no_unicode_text_is_kept_as_the_store_keeps_it() -> None:
    assert shown(index_of(at(0, "a", content="x\ud800y")))[0].content == "x?y"


def test_recall_sees_the_scopes_project_and_none() -> None:
    index = index_of(at(0, "own"), at(1, "work", WORK), at(2, "home", HOME))
    assert ids(index, ALICE) == ["own"]
    assert ids(index, WORK) == ["own", "work"]
    assert ids(index, Scope("alice", "unknown")) == ["own"]


def test_types_are_chosen() -> None:
    index = index_of(*(at(n, kind.value, kind=kind) for n, kind in enumerate(MemoryType)))
    assert ids(index, ALICE) == [kind.value for kind in MemoryType]
    assert ids(index, ALICE, frozenset({MemoryType.EPISODIC, MemoryType.SEMANTIC})) == ["semantic", "episodic"]
    assert ids(index, ALICE, frozenset()) == []
    assert [KINDS[code] for code in index.kinds] == list(MemoryType)


def test_what_has_expired_is_not_shown() -> None:
    index = index_of(at(0, "stays"), at(0, "ends", expires_at=NOW + timedelta(hours=1)))
    assert ids(index, ALICE, hours=0.99) == ["ends", "stays"]
    assert ids(index, ALICE, hours=1) == ["stays"]


def test_similarities_are_cosines() -> None:
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((700, 384)).astype(np.float32)
    directions[:, 17] *= 8  # one direction that stands out, as embeddings have
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    index = build_index("user:alice", [EmbeddedMemory(at(n, f"m{n}"), each) for n, each in enumerate(directions)])
    similarities = index.similarities(directions[3] * 5)
    assert similarities.dtype == np.float32
    np.testing.assert_allclose(similarities, directions @ directions[3], atol=0.005)
    assert similarities.argmax() == 3


def test_a_vector_of_nothing_is_like_nothing() -> None:
    nothing = np.zeros(16, dtype=np.float32)
    assert index_of(at(0, "a")).similarities(nothing).tolist() == [0.0]
    assert build_index("user:alice", [EmbeddedMemory(at(0, "a"), nothing)]).similarities(vector(1)).tolist() == [0.0]


def test_contents_are_found_by_their_words() -> None:
    index = index_of(at(0, "a", content="User has a dog"), at(1, "b", content="User's budget is $10,000"))
    scores = index.words.scores(index.words.find(terms("what's my budget")))
    assert scores[0] == 0
    assert scores[1] > 0


def test_the_mark_is_what_was_said_of_each() -> None:
    index = index_of(at(1, "a", content="xx"), at(0, "b", content="yyyy"))
    assert index.labels.tolist() == [4, 2]
    assert index.with_written([embedded(at(2, "c", content="z"))], label=length_of).labels.tolist() == [4, 2, 1]


def test_an_empty_index_has_nothing() -> None:
    index = build_index("user:alice", [])
    assert len(index) == 0
    assert index.similarities(vector(1)).tolist() == []
    assert index.words.scores(index.words.find(["dog"])).tolist() == []
    assert ids(index, ALICE) == []
    assert shown(index.without(["a"])) == []


# -- writes ------------------------------------------------------------------------------------------------------------

MEMORY_IDS = st.sampled_from("abcdefg")
WRITTEN = st.lists(
    st.builds(
        lambda memory_id, minute, scope, content, superseded, seed: embedded(
            at(
                minute,
                memory_id,
                scope,
                content=content,
                superseded_at=NOW if superseded else None,
                expires_at=NOW + timedelta(days=minute) if minute % 2 else None,
                metadata={"category": content[:6], "page": seed} if seed else None,
            ),
            seed,
        ),
        MEMORY_IDS,
        st.integers(0, 3),
        st.sampled_from([ALICE, WORK, HOME]),
        st.sampled_from(["User has a dog", "User's budget is $10,000", "用户的预算", ""]),
        st.booleans(),
        st.integers(0, 5),
    ),
    max_size=6,
)
CHANGES = st.lists(
    st.one_of(
        WRITTEN,
        st.sets(MEMORY_IDS, max_size=3),
        st.tuples(st.sampled_from([ALICE, WORK, HOME]), st.sampled_from([Reach.ALL, Reach.EXACT])),
    ),
    max_size=6,
)


def expected(changes: list[object]) -> OwnerIndex:
    """The index of what a store would have."""
    rows: dict[str, EmbeddedMemory] = {}
    for change in changes:
        match change:
            case list():
                rows.update((row.memory.id, row) for row in change)
            case set():
                rows = {memory_id: row for memory_id, row in rows.items() if memory_id not in change}
            case (Scope() as scope, Reach.EXACT):
                rows = {i: row for i, row in rows.items() if row.memory.scope.project_id != scope.project_id}
            case _:
                rows = {}
    return build_index(
        "user:alice", [row for row in rows.values() if row.memory.superseded_at is None], label=length_of
    )


def changed(changes: list[object]) -> OwnerIndex:
    index = build_index("user:alice", [])
    for change in changes:
        match change:
            case list():
                index = index.with_written(change, label=length_of)
            case set():
                index = index.without(change)
            case (Scope() as scope, Reach() as reach):
                index = index.without_all(scope, reach)
    return index


def same(one: OwnerIndex, other: OwnerIndex) -> None:
    assert shown(one) == shown(other)
    for name in ("keys", "created_at", "expires_at", "kinds", "labels", "importances", "factors", "vectors"):
        assert np.array_equal(getattr(one, name), getattr(other, name)) or not len(other)
    assert [one.attached[at] for at in one.attachments] == [other.attached[at] for at in other.attachments]
    for scope in (ALICE, WORK, HOME):
        assert ids(one, scope, hours=30) == ids(other, scope, hours=30)
    for query in (["dog"], ["budget", "10000"], ["预算"]):
        assert np.array_equal(one.words.scores(one.words.find(query)), other.words.scores(other.words.find(query)))


@given(CHANGES)
def test_writes_make_the_index_that_the_store_would_give(changes: list[object]) -> None:
    same(changed(changes), expected(changes))


def test_a_changed_index_keeps_nothing_but_itself() -> None:
    """Not the arrays it was made from, or it would take more than it says."""
    changed_index = index_of(at(0, "a"), at(1, "b"), at(2, "c")).without(["b"])
    for part in (changed_index, changed_index.words):
        arrays = [value for each in fields(part) if isinstance(value := getattr(part, each.name), np.ndarray)]
        assert len(arrays) >= 5
        assert all(array.base is None for array in arrays)


def test_a_write_leaves_the_index_before_as_it_was() -> None:
    before = index_of(at(0, "a"), at(1, "b"))
    before.with_written([embedded(at(0, "a", content="another"))], label=unlabelled)
    before.without(["b"])
    assert shown(before) == [at(0, "a"), at(1, "b")]


def test_what_an_index_takes_is_counted() -> None:
    small = index_of(at(0, "a"))
    large = index_of(*(at(n, f"m{n}", content="User " + "x" * 100) for n in range(100)))
    assert small.nbytes > 0
    assert large.nbytes - small.nbytes > 99 * (100 + 16 + 8 + 8)
