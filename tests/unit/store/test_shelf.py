"""A shelf: what it says of its memories, and what writes make of it."""

from dataclasses import fields, replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.terms import terms
from semrouter_memory.model import EmbeddedMemory, Memory, MemoryType, Reach, Scope
from semrouter_memory.store import packing
from semrouter_memory.store.shelf import KINDS, Shelf, filled, unmarked
from tests.memories import NOW, embedded, memory, vector

ALICE = Scope("alice")
WORK = Scope("alice", "work")
HOME = Scope("alice", "home")


def at(minute: int, memory_id: str, scope: Scope = ALICE, **more: object) -> Memory:
    return memory(scope, memory_id, created_at=NOW + timedelta(minutes=minute), **more)  # type: ignore[arg-type]


def shelf_of(*memories: Memory) -> Shelf:
    return filled("alice", [embedded(each, seed) for seed, each in enumerate(memories)], mark=length_of)


def length_of(one: Memory) -> int:
    return len(one.content)


def shown(shelf: Shelf) -> list[Memory]:
    return [shelf.memory(position) for position in range(len(shelf))]


def ids(shelf: Shelf, scope: Scope, types: frozenset[MemoryType] | None = None, *, hours: float = 0) -> list[str]:
    positions = shelf.positions(scope, now=NOW + timedelta(hours=hours), types=types)
    return [shelf.memory(int(position)).id for position in positions]


# -- what it says ------------------------------------------------------------------------------------------------------


def test_memories_stand_in_the_order_of_creation_and_id() -> None:
    shelf = shelf_of(at(2, "b"), at(1, "z"), at(2, "a"), at(0, "y"))
    assert [each.id for each in shown(shelf)] == ["y", "z", "a", "b"]
    assert shelf.created_at.tolist() == sorted(shelf.created_at.tolist())


def test_a_memory_comes_back_as_it_was() -> None:
    one = replace(
        at(0, "mem_1", Scope("alice", "wörk", "agent 7")),
        type=MemoryType.EPISODIC,
        session_id="ses_1",
        expires_at=NOW + timedelta(days=1),
        importance=0.25,
        metadata={"turn_ids": ["turn_1"], "nested": {"a": None, "b": [1, 2.5, "x"]}},
    )
    assert shown(shelf_of(one)) == [one]


@pytest.mark.parametrize("odd", ["\ud800", "a\x00b", '"\\', "x" * 10_000, "😀"])
def test_ids_may_be_anything(odd: str) -> None:
    one = replace(at(0, odd, Scope("alice", odd, odd)), session_id=odd)
    assert shown(shelf_of(one)) == [one]
    assert ids(shelf_of(one), Scope("alice", odd)) == [odd]
    assert not len(shelf_of(one).without([odd]))
    unpacked = packing.unpacked("alice", packing.packed(shelf_of(one), read_at=NOW))
    assert unpacked is not None
    assert shown(unpacked[0]) == [one]


def test_ids_that_are_no_unicode_text_are_different_ones() -> None:
    shelf = shelf_of(at(0, "?"), at(1, "\ud800"), at(2, "\ud801"))
    assert [each.id for each in shown(shelf.without(["?"]))] == ["\ud800", "\ud801"]
    assert [each.id for each in shown(shelf.without(["\ud800"]))] == ["?", "\ud801"]


def test_content_that_is_no_unicode_text_is_kept_as_the_store_keeps_it() -> None:
    assert shown(shelf_of(at(0, "a", content="x\ud800y")))[0].content == "x?y"


def test_recall_sees_the_scopes_project_and_none() -> None:
    shelf = shelf_of(at(0, "own"), at(1, "work", WORK), at(2, "home", HOME))
    assert ids(shelf, ALICE) == ["own"]
    assert ids(shelf, WORK) == ["own", "work"]
    assert ids(shelf, Scope("alice", "unknown")) == ["own"]


def test_types_are_chosen() -> None:
    shelf = shelf_of(*(at(n, kind.value, kind=kind) for n, kind in enumerate(MemoryType)))
    assert ids(shelf, ALICE) == [kind.value for kind in MemoryType]
    assert ids(shelf, ALICE, frozenset({MemoryType.EPISODIC, MemoryType.SEMANTIC})) == ["semantic", "episodic"]
    assert ids(shelf, ALICE, frozenset()) == []
    assert [KINDS[code] for code in shelf.kinds] == list(MemoryType)


def test_what_has_expired_is_not_shown() -> None:
    shelf = shelf_of(at(0, "stays"), at(0, "ends", expires_at=NOW + timedelta(hours=1)))
    assert ids(shelf, ALICE, hours=0.99) == ["ends", "stays"]
    assert ids(shelf, ALICE, hours=1) == ["stays"]


def test_similarities_are_cosines() -> None:
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((700, 384)).astype(np.float32)
    directions[:, 17] *= 8  # one direction that stands out, as embeddings have
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    shelf = filled("alice", [EmbeddedMemory(at(n, f"m{n}"), each) for n, each in enumerate(directions)])
    similarities = shelf.similarities(directions[3] * 5)
    assert similarities.dtype == np.float32
    np.testing.assert_allclose(similarities, directions @ directions[3], atol=0.005)
    assert similarities.argmax() == 3


def test_a_vector_of_nothing_is_like_nothing() -> None:
    nothing = np.zeros(16, dtype=np.float32)
    assert shelf_of(at(0, "a")).similarities(nothing).tolist() == [0.0]
    assert filled("alice", [EmbeddedMemory(at(0, "a"), nothing)]).similarities(vector(1)).tolist() == [0.0]


def test_contents_are_found_by_their_words() -> None:
    shelf = shelf_of(at(0, "a", content="User has a dog"), at(1, "b", content="User's budget is $10,000"))
    scores = shelf.lexical(terms("what's my budget"))
    assert scores[0] == 0
    assert scores[1] > 0


def test_the_mark_is_what_was_said_of_each() -> None:
    shelf = shelf_of(at(1, "a", content="xx"), at(0, "b", content="yyyy"))
    assert shelf.marks.tolist() == [4, 2]
    assert shelf.with_written([embedded(at(2, "c", content="z"))], mark=length_of).marks.tolist() == [4, 2, 1]


def test_an_empty_shelf_has_nothing() -> None:
    shelf = filled("alice", [])
    assert len(shelf) == 0
    assert shelf.similarities(vector(1)).tolist() == []
    assert shelf.lexical(["dog"]).tolist() == []
    assert ids(shelf, ALICE) == []
    assert shown(shelf.without(["a"])) == []


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


def expected(changes: list[object]) -> Shelf:
    """The shelf of what a store would have."""
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
    return filled("alice", [row for row in rows.values() if row.memory.superseded_at is None], mark=length_of)


def changed(changes: list[object]) -> Shelf:
    shelf = filled("alice", [])
    for change in changes:
        match change:
            case list():
                shelf = shelf.with_written(change, mark=length_of)
            case set():
                shelf = shelf.without(change)
            case (Scope() as scope, Reach() as reach):
                shelf = shelf.without_all(scope, reach)
    return shelf


def same(one: Shelf, other: Shelf) -> None:
    assert shown(one) == shown(other)
    for name in ("keys", "created_at", "expires_at", "kinds", "marks", "factors", "vectors"):
        assert np.array_equal(getattr(one, name), getattr(other, name)) or not len(other)
    for scope in (ALICE, WORK, HOME):
        assert ids(one, scope, hours=30) == ids(other, scope, hours=30)
    for query in (["dog"], ["budget", "10000"], ["预算"]):
        assert np.array_equal(one.lexical(query), other.lexical(query))


@given(CHANGES)
def test_writes_make_the_shelf_that_the_store_would_fill(changes: list[object]) -> None:
    same(changed(changes), expected(changes))


@given(CHANGES)
def test_a_shelf_comes_back_from_its_bytes(changes: list[object]) -> None:
    shelf = changed(changes)
    unpacked = packing.unpacked("alice", packing.packed(shelf, read_at=NOW))
    assert unpacked is not None
    assert unpacked[1] == NOW
    same(unpacked[0], shelf)
    # What was unpacked can be changed like any other.
    same(unpacked[0].without(["a"]), shelf.without(["a"]))


def test_an_unpacked_shelf_keeps_nothing_but_itself() -> None:
    """Not the bytes it came in, or it would take twice of what it says."""
    unpacked = packing.unpacked("alice", packing.packed(shelf_of(at(0, "a"), at(1, "b")), read_at=NOW))
    assert unpacked is not None
    for part in (unpacked[0], unpacked[0].index):
        arrays = [value for each in fields(part) if isinstance(value := getattr(part, each.name), np.ndarray)]
        assert len(arrays) >= 5
        assert all(array.base is None for array in arrays)


def test_a_write_leaves_the_shelf_before_as_it_was() -> None:
    before = shelf_of(at(0, "a"), at(1, "b"))
    before.with_written([embedded(at(0, "a", content="another"))], mark=unmarked)
    before.without(["b"])
    assert shown(before) == [at(0, "a"), at(1, "b")]


@pytest.mark.parametrize(
    "value", [b"", b"\n", b"{}", b"{}\n", b"[1]\n", b"\xff" * 100, b'{"arrays": [["x", "<u8", [9]]]}\n']
)
def test_bytes_that_are_no_shelf_are_none(value: bytes) -> None:
    assert packing.unpacked("alice", value) is None


def test_cut_bytes_are_no_shelf() -> None:
    value = packing.packed(shelf_of(at(0, "a"), at(1, "b")), read_at=NOW)
    assert packing.unpacked("alice", value) is not None
    for length in range(0, len(value), 7):
        assert packing.unpacked("alice", value[:length]) is None


def test_what_a_shelf_takes_is_counted() -> None:
    small = shelf_of(at(0, "a"))
    large = shelf_of(*(at(n, f"m{n}", content="User " + "x" * 100) for n in range(100)))
    assert small.nbytes > 0
    assert large.nbytes - small.nbytes > 99 * (100 + 16 + 8 + 8)
