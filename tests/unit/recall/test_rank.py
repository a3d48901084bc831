"""Which hits are rendered."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from semrouter_memory.model import Hit, MemoryType, RecallOptions
from semrouter_memory.recall.rank import choose

MakeHit = Callable[..., Hit]
OPTIONS = RecallOptions(limit=5, threshold=0.6)


def chosen(hits: Sequence[Hit], options: RecallOptions = OPTIONS, **changes: Any) -> list[str]:
    arguments: dict[str, Any] = {
        "query": "budget?",
        "visible": (),
        "is_deleted": lambda memory: False,
        "cost": lambda hit: 1,
        "budget": 100,
        **changes,
    }
    return [hit.memory.content for hit in choose(hits, options, **arguments)]


def test_the_best_come_first_and_ties_are_ordered_by_id(make_hit: MakeHit) -> None:
    hits = [
        make_hit("second", 0.7, memory_id="b"),
        make_hit("third", 0.7, memory_id="c"),
        make_hit("first", 0.9, memory_id="d"),
    ]

    assert chosen(hits) == chosen(hits[::-1]) == ["first", "second", "third"]


def test_a_hit_on_the_threshold_is_kept_and_one_below_is_not(make_hit: MakeHit) -> None:
    assert chosen([make_hit("on", 0.6), make_hit("below", 0.5999)]) == ["on"]


def test_the_relevance_is_compared_not_the_similarity(make_hit: MakeHit) -> None:
    memory = make_hit("fact").memory

    assert chosen([Hit(memory, similarity=0.1, relevance=0.7)]) == ["fact"]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_no_more_than_the_limit(make_hit: MakeHit, limit: int, count: int) -> None:
    hits = [make_hit(f"fact {at}") for at in range(4)]

    assert len(chosen(hits, RecallOptions(limit=limit, threshold=0.6))) == count


def test_only_the_types_asked_for(make_hit: MakeHit) -> None:
    hits = [make_hit("how", memory_type=MemoryType.PROCEDURAL), make_hit("what")]
    options = RecallOptions(limit=5, threshold=0.6, types=frozenset({MemoryType.PROCEDURAL}))

    assert chosen(hits, options) == ["how"]


def test_a_memory_found_by_two_searches_counts_once_with_its_better_score(make_hit: MakeHit) -> None:
    hits = [make_hit("fact", 0.65, memory_id="a"), make_hit("other", 0.7), make_hit("fact", 0.9, memory_id="a")]

    assert chosen(hits) == ["fact", "other"]


def test_what_says_the_same_is_given_once(make_hit: MakeHit) -> None:
    hits = [
        make_hit("User is allergic to peanuts", 0.9),
        make_hit("The user is allergic to peanuts.", 0.8),
        make_hit("user is  ALLERGIC to peanuts", 0.7),
    ]

    assert chosen(hits) == ["User is allergic to peanuts"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User's budget is $10,000", "User's budget is $15,000"),
        ("User likes tea", "User does not like tea"),
        ("User moved from Berlin to Munich", "User moved from Munich to Berlin"),
        ("...", "!!!"),
    ],
)
def test_what_differs_in_a_word_is_kept(make_hit: MakeHit, one: str, other: str) -> None:
    assert len(chosen([make_hit(one), make_hit(other)])) == 2


def test_what_the_request_shows_anyway_makes_room_for_the_next(make_hit: MakeHit) -> None:
    hits = [make_hit("User lives in Berlin", 0.9), make_hit("User has a cat", 0.8)]
    options = RecallOptions(limit=1, threshold=0.6)

    assert chosen(hits, options, visible=("I live in Berlin.",)) == ["User has a cat"]


def test_a_deleted_memory_makes_room_for_the_next(make_hit: MakeHit) -> None:
    hits = [make_hit("gone", 0.9), make_hit("there", 0.8)]
    options = RecallOptions(limit=1, threshold=0.6)

    assert chosen(hits, options, is_deleted=lambda memory: memory.content == "gone") == ["there"]


def test_a_memory_beyond_the_budget_makes_room_for_a_smaller_one(make_hit: MakeHit) -> None:
    hits = [make_hit("aaaa", 0.9), make_hit("bbbbbbbb", 0.8), make_hit("cc", 0.7)]

    assert chosen(hits, cost=lambda hit: len(hit.memory.content), budget=6) == ["aaaa", "cc"]
    assert chosen(hits, cost=lambda hit: len(hit.memory.content), budget=5) == ["aaaa"]


def test_nothing_below_the_cut_is_looked_at(make_hit: MakeHit) -> None:
    """Tombstones and costs are asked for only where they matter: most requests have no hit above the cut."""

    def never(_: object) -> Any:
        raise AssertionError

    assert chosen([make_hit("fact", 0.2)], is_deleted=never, cost=never) == []
