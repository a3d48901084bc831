"""Which statements are merged, how the result reads, and that nothing is lost or made up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.maintenance.related import Group, adds_nothing, groups, keeps_everything
from semrouter_memory.model import Memory, MemoryType, Scope
from tests.unit.maintenance.parts import ALICE, EMBEDDER, NOW, aged


async def grouped(*contents: str, kind: MemoryType = MemoryType.SEMANTIC) -> list[Group]:
    """The groups among statements, given the oldest first."""
    days = len(contents)
    memories = [aged(f"m{at}", days=days - at, content=content, kind=kind) for at, content in enumerate(contents)]
    return await grouped_memories(*memories)


async def grouped_memories(*memories: Memory) -> list[Group]:
    return groups(memories, await EMBEDDER.embed_passages([memory.content for memory in memories]))


@pytest.mark.parametrize(
    ("contents", "merged"),
    [
        (
            ["Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000"],
            "Final Hawaii budget is $12,000 (earlier: Added $2,000 to Hawaii budget; Budget for Hawaii is $10,000)",
        ),
        (
            ["User's budget for the Hawaii trip is $10,000", "User's budget for the Hawaii trip is $12,000"],
            "User's budget for the Hawaii trip is $12,000 (earlier: $10,000)",
        ),
        (
            ["User's hobby is chess", "User's hobby is tennis"],
            "User's hobby is tennis (also: chess)",
        ),
        (
            ["User likes rye bread", "User likes rye bread with butter"],
            "User likes rye bread with butter",
        ),
        (
            ["User likes rye bread with butter", "User likes rye bread"],
            "User likes rye bread with butter",
        ),
        (["User lives in Berlin.", "The user lives in Berlin"], "The user lives in Berlin"),
        (
            ["用户的夏威夷预算是10000元", "用户的夏威夷预算是12000元"],
            "用户的夏威夷预算是12000元 (earlier: 用户的夏威夷预算是10000元)",
        ),
    ],
)
async def test_related_statements_become_one(contents: list[str], merged: str) -> None:
    (group,) = await grouped(*contents)
    assert group.content == merged
    assert [memory.id for memory in group.memories] == [f"m{at}" for at in reversed(range(len(contents)))]


@pytest.mark.parametrize(
    "contents",
    [
        ["User's budget for Hawaii is $10,000", "User's budget for Japan is $10,000"],
        ["User's budget for Hawaii is $10,000", "User's budget for Hawaii is not $10,000"],
        ["User's dog is called Rex", "User's cat is called Tom"],
        ["User works as a nurse", "User worked as a baker"],
        ["User was a nurse", "User is a nurse"],
        ["User's sister is a nurse", "User's mother is a nurse"],
        ["User bought a bicycle for $300", "User bought a bicycle for $400"],
        ["User likes rye bread", "User plays the cello"],
        ["User spent $30 on books", "User spent $30 on shoes"],
    ],
)
async def test_different_statements_stay_apart(contents: list[str]) -> None:
    assert not await grouped(*contents)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"form": "quote"}, {}),
        ({"form": "quote", "context": "The hotel in Porto?"}, {"form": "quote", "context": "The hotel in Rome?"}),
        ({"form": "quote", "outdated_by": ["m9"]}, {"form": "quote"}),
    ],
)
async def test_what_says_less_without_its_metadata_stays_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A quote and a statement; the same words about other things; a quote of which a part has changed."""
    said = "80 a night at most"
    older, newer = aged("m0", days=2, content=said, metadata=one), aged("m1", content=said, metadata=other)
    assert not await grouped_memories(older, newer)
    assert await grouped_memories(replace(older, metadata={}), replace(newer, metadata={}))


async def test_a_sign_is_never_lost() -> None:
    for first, second in (("A+", "A-"), ("A-", "A+")):
        for group in await grouped(f"User's blood type is {first}", f"User's blood type is {second}"):
            assert first in group.content
            assert second in group.content


@pytest.mark.parametrize("second", ["User's budget is €10,000", "User's budget is 10,000 euros"])
async def test_a_currency_is_never_lost(second: str) -> None:
    for group in await grouped("User's budget is $10,000", second):
        assert "$" in group.content
        assert "euros" in group.content or "€" in group.content


async def test_how_tos_merge_only_when_one_says_all_of_the_other() -> None:
    same = ["To deploy the shop: make build, then make push", "To deploy the shop: on main make build, then make push"]
    other = ["To deploy the shop: run make build, then make push", "To deploy the shop: call Ann"]
    assert len(await grouped(*same, kind=MemoryType.PROCEDURAL)) == 1
    assert not await grouped(*other, kind=MemoryType.PROCEDURAL)


async def test_users_projects_and_types_are_never_mixed() -> None:
    text = "User's hobby is chess"
    memories = [
        aged("a", content=text),
        aged("b", content=text, scope=Scope("alice", "apollo")),
        aged("c", content=text, scope=Scope("bob")),
        aged("d", content=text, kind=MemoryType.REFLECTIVE),
    ]
    assert not await grouped_memories(*memories)


@pytest.mark.parametrize(
    "left_alone",
    [
        aged("b", metadata={"flagged": True}),
        aged("b", expires_at=NOW + timedelta(days=1)),
        aged("b", kind=MemoryType.EPISODIC),
    ],
)
async def test_what_is_flagged_or_expires_or_happened_is_left_alone(left_alone: Memory) -> None:
    assert not await grouped_memories(aged("a", kind=left_alone.type), left_alone)


async def test_a_summary_that_is_merged_again_stays_flat() -> None:
    (group,) = await grouped(
        "User's budget for the Hawaii trip is $12,000 (earlier: $10,000)",
        "User's budget for the Hawaii trip is $15,000",
    )
    assert group.content == "User's budget for the Hawaii trip is $15,000 (earlier: $12,000; $10,000)"


async def test_statements_whose_merged_text_would_be_too_long_stay_apart() -> None:
    start = "User's plan for the Hawaii trip is "
    long = [start + " ".join(f"{word}{number}" for number in range(90)) for word in ("swim", "walk")]
    assert not await grouped(*long)


async def test_a_group_with_more_turns_than_one_deletion_can_reach_stays_apart() -> None:
    turns = [{"turn_ids": [f"{name}{number}" for number in range(150)]} for name in "ab"]
    assert not await grouped_memories(*(aged(f"m{at}", days=at, metadata=each) for at, each in enumerate(turns)))


def test_no_memories_have_no_groups() -> None:
    assert groups([], []) == []


ORIGINALS = ["Budget for Hawaii is $10,000", "Added $2,000 to the Hawaii budget", "Anna pays by 2026-05-01"]


@pytest.mark.parametrize(
    ("summary", "keeps", "adds_none"),
    [
        ("Hawaii budget was $10,000, then $2,000 were added; Anna pays by 2026-05-01", True, True),
        ("Hawaii budget was $10k, then $2k were added; Anna pays by May 1, 2026", True, True),
        ("Hawaii budget is $12,000 ($10,000 and $2,000); Anna pays by 2026-05-01", True, False),
        ("Hawaii budget was $10,000; Anna pays by 2026-05-01", False, True),
        ("Hawaii budget was $10,000, then $2,000 were added; she pays by 2026-05-01", False, True),
        ("Hawaii budget was €10,000, then €2,000 were added; Anna pays by 2026-05-01", False, False),
        ("Hawaii budget was $10,000, then $2,000 were added; Anna and Tom pay by 2026-05-01", True, False),
        ("Hawaii budget was not $10,000, then $2,000 were added; Anna pays by 2026-05-01", True, False),
        ("Hawaii budget was $10,000, then $2,000 were added; Anna pays by 2026-05-02", False, False),
    ],
)
def test_a_summary_is_checked_for_what_is_lost_and_what_is_made_up(summary: str, keeps: bool, adds_none: bool) -> None:
    assert keeps_everything(summary, ORIGINALS) is keeps
    assert adds_nothing(summary, ORIGINALS) is adds_none


async def test_alice_is_in_the_group_that_is_hers() -> None:
    (group,) = await grouped("User's hobby is chess", "User's hobby is tennis")
    assert {memory.scope for memory in group.memories} == {ALICE}
