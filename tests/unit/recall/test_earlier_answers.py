"""What was answered in earlier conversations, and which requests mean it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from semrouter_memory.model import LoggedTurn, Message, RecallOptions, RecallRequest, Role, Scope
from semrouter_memory.recall.earlier_answers import excerpt, matching_answers, means_earlier_answers
from semrouter_memory.recall.query import Query

REQUEST = RecallRequest(scope=Scope("alice"), query="budget?", options=RecallOptions(limit=5, threshold=0.6))
GAMES = """Here are some that reward different skills:

1. **7 Wonders Duel** - drafting with military tension
2. **Jaipur** - quick trading, half an hour
3. **Watergate** - asymmetrical, one plays the journalist"""
SAID = {
    "Recommend me some board games for two?": GAMES,
    "what paint do I need for a red Vespa": "Two layers of primer, then Max Meyer 1.298.5847 and clear coat.",
    "How do I get wax out of a tablecloth?": "Let it harden, scrape it off, then iron it between kitchen paper.",
    "去青海露营带哪种帐篷好？": "挪客云尚2，两公斤，防风。",
    "Write a Python function that flattens a list": "def flatten(items): ...",
}
TURNS = [
    LoggedTurn(
        id=str(number),
        sequence=number,
        scope=Scope("alice"),
        session_id="s",
        user_text=asked,
        assistant_text=answer,
        observed_at=datetime(2026, 3, number, tzinfo=UTC),
    )
    for number, (asked, answer) in enumerate(SAID.items(), 1)
]


def asking(text: str) -> Query:
    return Query(text=text, now=datetime(2026, 4, 1, tzinfo=UTC), max_chars=4_000)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("which of the games you suggested was the one with a journalist?", GAMES),
        ("what was the 1.298.5847 that you mentioned?", SAID["what paint do I need for a red Vespa"]),
        ("你上次推荐的帐篷是哪个？", SAID["去青海露营带哪种帐篷好？"]),
        ("What was the paint code for the Vespa that you gave me?", SAID["what paint do I need for a red Vespa"]),
        ("How did you say I get wax out of the tablecloth?", SAID["How do I get wax out of a tablecloth?"]),
    ],
)
def test_a_request_that_speaks_of_an_earlier_answer_finds_it(asked: str, answer: str) -> None:
    assert means_earlier_answers(REQUEST, asking(asked))
    assert [each.text for each in matching_answers(TURNS, asked)] == [answer]


@pytest.mark.parametrize(
    "asked", ["Which hotel in Oslo did you recommend?", "you told me a joke about a parrot, how did it go?", "did you?"]
)
def test_what_was_never_answered_is_not_found(asked: str) -> None:
    assert matching_answers(TURNS, asked) == matching_answers([], asked) == []


@pytest.mark.parametrize(
    "asked",
    [
        "Which paint do I need?",
        "Suggest a game for two",
        "What do you recommend?",
        "Can you tell me a joke?",
        "你推荐什么？",
    ],
)
def test_other_requests_do_not_mean_one(asked: str) -> None:
    assert not means_earlier_answers(REQUEST, asking(asked))


def test_in_a_running_conversation_the_answers_that_it_shows_are_meant() -> None:
    asked = asking("Which game did you suggest?")

    assert means_earlier_answers(replace(REQUEST, history=(Message(Role.USER, "hi"),)), asked)
    assert not means_earlier_answers(replace(REQUEST, history=(Message(Role.ASSISTANT, "Try Jaipur."),)), asked)
    assert not means_earlier_answers(replace(REQUEST, previous_response_id="r1"), asked)
    assert not means_earlier_answers(replace(REQUEST, options=replace(REQUEST.options, types=frozenset())), asked)


def test_of_a_long_answer_the_part_that_is_asked_for_is_given() -> None:
    def words(text: str) -> int:
        return len(text.split())

    assert excerpt(GAMES, "which one has a journalist?", cost=words, budget=100) == " ".join(GAMES.split())
    assert excerpt(GAMES, "which one has a journalist?", cost=words, budget=9) == (
        "… 3. **Watergate** - asymmetrical, one plays the journalist"
    )
    assert excerpt(GAMES, "which one has a journalist?", cost=words, budget=1) == ""
