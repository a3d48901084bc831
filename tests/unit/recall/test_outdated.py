"""Episodes that tell of something that has changed since."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from semrouter_memory.model import Hit, Json, MemoryType
from semrouter_memory.recall.selection import outdated_episodes

MakeHit = Callable[..., Hit]


@pytest.fixture
def episode(make_hit: MakeHit) -> Hit:
    made = make_hit("the user's budget is $10", memory_id="episode", memory_type=MemoryType.EPISODIC)
    return replace(made, memory=replace(made.memory, metadata={"turn_ids": ["turn_1", "turn_2"]}))


def fact(make_hit: MakeHit, **metadata: Json) -> Hit:
    made = make_hit("User's budget is $15", 0.3, memory_id="fact")
    return replace(made, memory=replace(made.memory, metadata=metadata))


def outdated(episode: Hit, fact: Hit) -> bool:
    return bool(outdated_episodes([episode], [episode, fact]))


def test_an_episode_yields_to_a_fact_that_replaced_what_it_tells(make_hit: MakeHit, episode: Hit) -> None:
    """However far the fact is from the question."""
    assert outdated(episode, fact(make_hit, turn_ids=["turn_9"], replaces=["turn_2"]))


def test_it_stays_beside_facts_about_something_else(make_hit: MakeHit, episode: Hit) -> None:
    assert not outdated(episode, fact(make_hit, turn_ids=["turn_9"], replaces=["turn_7"]))
    assert not outdated(episode, fact(make_hit, turn_ids=["turn_9"]))


def test_it_stays_when_it_tells_the_new_value_itself(make_hit: MakeHit, episode: Hit) -> None:
    assert not outdated(episode, fact(make_hit, turn_ids=["turn_2", "turn_9"], replaces=["turn_1"]))


@pytest.mark.parametrize("value", [None, "turn_2", 7, {"turn_2": 1}, [None, ["turn_2"]]])
def test_metadata_that_is_not_ours_hides_nothing(make_hit: MakeHit, episode: Hit, value: Json) -> None:
    assert not outdated(episode, fact(make_hit, turn_ids=["turn_9"], replaces=value))
