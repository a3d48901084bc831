"""Which hits are rendered."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from semrouter_memory.model import Hit, MemoryType, OtherOwner, OwnerKind, RecallOptions, Scope
from semrouter_memory.recall.explanation import Verdict
from semrouter_memory.recall.selection import Budget, OthersHits, choose
from semrouter_memory.recall.strategy import best_first

MakeHit = Callable[..., Hit]
OPTIONS = RecallOptions(limit=5, threshold=0.6)
ACME, BOT = Scope("acme", kind=OwnerKind.ORGANISATION), Scope("bot", kind=OwnerKind.AGENT)


def chosen(hits: Sequence[Hit], options: RecallOptions = OPTIONS, **changes: Any) -> list[str]:
    arguments: dict[str, Any] = {
        "visible": (),
        "cost": lambda hit: 1,
        "budget": Budget(tokens=100),
        **changes,
    }
    return [hit.memory.content for hit in choose(best_first(hits), options, **arguments)]


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


def of(hit: Hit, owner: Scope) -> Hit:
    return replace(hit, memory=replace(hit.memory, scope=owner))


def test_each_owner_has_its_own_limit_and_share_and_all_are_one_ranking(make_hit: MakeHit) -> None:
    own = [make_hit(f"own {at}", 0.7 + at / 100) for at in range(4)]
    acme = [of(make_hit(f"acme {at}", 0.9 - at / 100), ACME) for at in range(4)]
    bot = [of(make_hit(f"bot {at}", 0.8 - at / 100), BOT) for at in range(4)]
    options = RecallOptions(limit=2, threshold=0.6)

    def with_shares(acme_share: float, bot_share: float) -> list[str]:
        others = [OthersHits(OtherOwner(ACME, 3, acme_share), acme), OthersHits(OtherOwner(BOT, 1, bot_share), bot)]
        return chosen(own, options, others=others, budget=Budget(tokens=10))

    assert with_shares(1, 1) == ["acme 0", "acme 1", "acme 2", "bot 0", "own 3", "own 2"]
    assert with_shares(0.2, 0.05) == ["acme 0", "acme 1", "own 3", "own 2"]


def test_memories_of_one_id_and_two_owners_are_two(make_hit: MakeHit) -> None:
    """Whatever an organisation's memory claims to quote or to replace, it says nothing of the user's."""
    own = [make_hit("User likes tea", 0.7, memory_id="m1")]
    named = make_hit("Tea is at four", 0.8, memory_id="m1")
    naming = make_hit("Coffee is at five", 0.75, memory_id="m2")
    naming = replace(naming, memory=replace(naming.memory, metadata={"quote": "m1", "outdated_by": ["m1"]}))
    others = [OthersHits(OtherOwner(ACME, 5, 1.0), [of(named, ACME), of(naming, ACME)])]

    assert "User likes tea" in chosen(own, others=others)
    assert "Tea is at four" in chosen(own, others=others)


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
        ("User's sister Anna taught Ben chess", "User's sister Ben taught Anna chess"),
        ("User eats meat", "User doesn't eat meat"),
        ("User has a dog", "User has no dog"),
        ("User takes the white pill before breakfast", "User takes the white pill after breakfast"),
        ("用户吃肉", "用户不吃肉"),
        (
            "User's red racing bike from the shop in Bergen cost 900 euros, with lights, lock, pump and helmet",
            "User's red racing bike from the shop in Bergen cost 950 euros, with lights, lock, pump and helmet",
        ),
        ("...", "!!!"),
    ],
)
def test_what_differs_in_a_word_is_kept(make_hit: MakeHit, one: str, other: str) -> None:
    assert len(chosen([make_hit(one), make_hit(other)])) == 2


def test_what_the_request_shows_anyway_makes_room_for_the_next(make_hit: MakeHit) -> None:
    hits = [make_hit("User lives in Berlin", 0.9), make_hit("User has a cat", 0.8)]
    options = RecallOptions(limit=1, threshold=0.6)

    assert chosen(hits, options, visible=("I live in Berlin.",)) == ["User has a cat"]


def test_a_memory_beyond_the_budget_makes_room_for_a_smaller_one(make_hit: MakeHit) -> None:
    hits = [make_hit("aaaa", 0.9), make_hit("bbbbbbbb", 0.8), make_hit("cc", 0.7)]

    assert chosen(hits, cost=lambda hit: len(hit.memory.content), budget=Budget(tokens=6)) == ["aaaa", "cc"]
    assert chosen(hits, cost=lambda hit: len(hit.memory.content), budget=Budget(tokens=5)) == ["aaaa"]


def test_nothing_below_the_cut_is_looked_at(make_hit: MakeHit) -> None:
    """Costs are asked for only where they matter: most requests have no hit above the cut."""

    def never(_: object) -> Any:
        raise AssertionError

    assert chosen([make_hit("fact", 0.2)], cost=never) == []


# -- what is pinned ----------------------------------------------------------------------------------------------------


def test_what_is_pinned_comes_after_what_was_asked_for(make_hit: MakeHit) -> None:
    hits = [make_hit("unasked", 0.1, memory_id="u"), make_hit("asked", 0.7), make_hit("neither", 0.5)]

    assert chosen(hits, pinned=frozenset({"u"}), budget=Budget(tokens=9, pinned_tokens=9)) == ["asked", "unasked"]


def test_what_the_user_pinned_comes_first_whatever_its_relevance(make_hit: MakeHit) -> None:
    """Before others' memories, too; within the small budget, the limit and the types as the rest."""
    hits = [make_hit(name, relevance, memory_id=name) for name, relevance in (("a", 0.9), ("b", 0.7), ("c", 0.1))]
    others = [OthersHits(OtherOwner(ACME, limit=5, budget_share=1.0), [of(make_hit("o", 0.95), ACME)])]
    verdicts = dict[str, Verdict]()
    pinned: dict[str, Any] = {"pinned_by_user": frozenset({"b", "c"}), "budget": Budget(tokens=100, pinned_tokens=9)}

    def judge(hit: Hit, verdict: Verdict) -> None:
        verdicts[hit.memory.id] = verdict

    assert chosen(hits, judge=judge, **pinned) == ["b", "c", "a"]
    assert verdicts == {"a": Verdict.CHOSEN, "b": Verdict.CHOSEN, "c": Verdict.PINNED}
    assert chosen(hits, others=others, **pinned) == ["b", "c", "o", "a"]
    assert chosen(hits, replace(OPTIONS, limit=2), **pinned) == ["b", "c"]
    assert chosen(hits, replace(OPTIONS, types=frozenset({MemoryType.EPISODIC})), **pinned) == []
    assert chosen(hits, visible=["c"], **pinned) == ["b", "a"]
    assert chosen(hits, **pinned | {"budget": Budget(tokens=100)}) == ["b", "a"]


def test_what_another_owner_pinned_comes_next_whatever_its_relevance(make_hit: MakeHit) -> None:
    """Within that owner's limit and the small budget."""
    hits = [make_hit("a", 0.9, memory_id="a"), make_hit("b", 0.1, memory_id="b")]
    theirs = [of(make_hit(name, relevance, memory_id=name), ACME) for name, relevance in (("o", 0.95), ("p", 0.2))]
    pinned: dict[str, Any] = {"pinned_by_user": frozenset({"b"}), "budget": Budget(tokens=100, pinned_tokens=9)}

    def given(limit: int, **more: Any) -> list[str]:
        others = [OthersHits(OtherOwner(ACME, limit=limit, budget_share=1.0), theirs, frozenset({"p"}))]
        return chosen(hits, others=others, **pinned | more)

    assert given(5) == ["b", "p", "o", "a"]
    assert given(1) == ["b", "p", "a"]
    assert given(5, budget=Budget(tokens=100, pinned_tokens=1)) == ["b", "o", "a"]


def test_what_is_pinned_has_a_small_budget_within_that_of_the_block(make_hit: MakeHit) -> None:
    hits = [make_hit("aaaa", 0.9), make_hit("bbb", 0.2, memory_id="b"), make_hit("cc", 0.1, memory_id="c")]

    def within(tokens: int, pinned_tokens: int) -> list[str]:
        return chosen(
            hits,
            pinned=frozenset({"b", "c"}),
            cost=lambda hit: len(hit.memory.content),
            budget=Budget(tokens=tokens, pinned_tokens=pinned_tokens),
        )

    assert within(9, 9) == ["aaaa", "bbb", "cc"]
    assert within(9, 4) == ["aaaa", "bbb"]
    assert within(9, 2) == ["aaaa", "cc"]
    assert within(6, 9) == ["aaaa", "cc"]
    assert within(9, 0) == ["aaaa"]


def test_what_is_relevant_anyway_takes_nothing_of_the_small_budget(make_hit: MakeHit) -> None:
    hits = [make_hit("relevant", 0.6, memory_id="r"), make_hit("unasked", 0.1, memory_id="u")]

    assert chosen(hits, pinned=frozenset({"r", "u"}), budget=Budget(tokens=2, pinned_tokens=1)) == [
        "relevant",
        "unasked",
    ]


def test_what_is_pinned_counts_for_the_limit_and_is_of_the_types_asked_for(make_hit: MakeHit) -> None:
    hits = [make_hit("unasked", 0.1, memory_id="u"), make_hit("asked", 0.7)]
    arguments: dict[str, Any] = {"pinned": frozenset({"u"}), "budget": Budget(tokens=9, pinned_tokens=9)}

    assert chosen(hits, RecallOptions(limit=1, threshold=0.6), **arguments) == ["asked"]
    procedural = RecallOptions(limit=5, threshold=0.6, types=frozenset({MemoryType.PROCEDURAL}))
    assert chosen(hits, procedural, **arguments) == []


# -- nearly the same, the order, Chinese -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User's budget for the Hawaii trips is $10,000", "The user has a budget for the Hawaii trip, of $10K"),
        (
            "User bought a red racing bike, lights, a lock, a pump and a helmet on 2026-03-01",
            "On the user's list: bought a red racing bike, lights, lock, pump, helmet, 2026-03-01",
        ),
    ],
)
def test_what_has_nearly_the_same_words_is_given_once(make_hit: MakeHit, one: str, other: str) -> None:
    assert chosen([make_hit(one, 0.9), make_hit(other, 0.8)]) == [one]
    assert chosen([make_hit(one, 0.8), make_hit(other, 0.9)]) == [other]


def test_one_more_word_that_tells_something_is_not_the_same(make_hit: MakeHit) -> None:
    short, longer = "User drives a blue car", "User drives a blue car to work on Mondays"

    assert chosen([make_hit(short, 0.9), make_hit(longer, 0.8)]) == [short, longer]


def test_hits_that_are_in_order_stay_so(make_hit: MakeHit) -> None:
    """The newest first: the budget must not end with the oldest ones."""
    hits = [make_hit("newest", 1.0, memory_id="c"), make_hit("older", 1.0, memory_id="b"), make_hit("oldest", 1.0)]

    found = choose(hits, OPTIONS, visible=(), cost=lambda _: 1, budget=Budget(tokens=2))
    assert [hit.memory.content for hit in found] == ["newest", "older"]


def test_of_a_statement_and_its_quote_the_quote_is_shown_once(make_hit: MakeHit) -> None:
    quote = make_hit("we have two kids, Mia and Tom", 0.3, memory_id="q", form="quote")
    hits = [make_hit("User has two children", 0.9, quote="q"), make_hit("User's son is Tom", 0.7, quote="q"), quote]

    assert chosen(hits) == ["we have two kids, Mia and Tom"]
    assert chosen(hits[:1]) == ["User has two children"], "its quote was not found"


def test_the_statement_is_shown_where_its_quote_is_outdated_in_part(make_hit: MakeHit) -> None:
    hits = [
        make_hit("User has two children", 0.9, quote="q"),
        make_hit("two kids, budget 10,000", 0.5, memory_id="q", form="quote", outdated_by=["n"]),
    ]

    assert chosen(hits) == ["User has two children"]


def test_the_new_value_comes_before_a_quote_that_tells_the_old_one_and_with_it(make_hit: MakeHit) -> None:
    old = make_hit("budget 10,000, Anna eats no fish", 0.9, memory_id="o", form="quote", outdated_by=["n", "gone"])
    new = make_hit("my budget is 15k now", 0.2, memory_id="n", form="quote")

    assert chosen([old, new]) == ["my budget is 15k now", "budget 10,000, Anna eats no fish"]
    assert chosen([old, new], RecallOptions(limit=1, threshold=0.6)) == ["my budget is 15k now"]
    assert chosen([old]) == ["budget 10,000, Anna eats no fish"]
