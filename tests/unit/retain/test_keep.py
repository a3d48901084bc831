"""The decision *keep?*: right often enough on people that it was not fitted on, and on plain speech."""

import json
from pathlib import Path

import pytest

from semrouter_memory.retain.keep import CUT, in_message, keep

TRAINING = Path(__file__).parents[3] / "training"
KEPT = frozenset(
    ("fact", "people", "work", "taste", "plan", "event", "style", "procedure", "remember", "update", "answer", "mixed")
)


def probability(said: str, *, asked: str = "") -> float:
    return keep(in_message([said], said, asked))[0]


def judged() -> list[tuple[str, bool]]:
    """The label of each sentence of the people set aside, and whether it would be kept."""
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    people = [json.loads(line) for line in (TRAINING / "sentences.jsonl").read_text(encoding="utf-8").splitlines()]
    found = []
    for message in (message for person in people if person["person"] in aside for message in person["messages"]):
        pieces = [piece for piece, _ in message["sentences"]]
        probabilities = keep(in_message(pieces, "".join(pieces), message["before"]))
        labels = [label for _, label in message["sentences"]]
        found += [(label, each >= CUT) for label, each in zip(labels, probabilities, strict=True)]
    return found


def test_people_that_were_set_aside_are_judged_as_they_were_labelled() -> None:
    found = judged()
    told = [kept for label, kept in found if label in KEPT]
    others = [kept for label, kept in found if label not in KEPT]
    assert len(found) > 800
    assert sum(told) / len(told) >= 0.86
    assert sum(others) / len(others) <= 0.25


@pytest.mark.parametrize(
    ("label", "most"), [("question", 0.15), ("request", 0.2), ("smalltalk", 0.2), ("roleplay", 0.4), ("pasted", 0.2)]
)
def test_of_each_kind_that_is_not_kept_little_is(label: str, most: float) -> None:
    kept = [each for other, each in judged() if other == label]
    assert kept
    assert sum(kept) / len(kept) <= most


@pytest.mark.parametrize(
    "said",
    [
        "I live in Bonn",
        "I moved to Munich",
        "I'm allergic to peanuts",
        "My budget for the Hawaii trip is $10,000",
        "I have two cats",
        "my name is Alice, call me Al",
        "We have three kids",
        "I don't eat meat",
        "my sister Amal lives in Amman",
        "I was born in Lima in 1988",
        "My favourite food is sushi",
        "Our anniversary is on June 5.",
        "from now on answer in bullet points",
        "我对花生过敏",
        "我喜欢喝茶",
    ],
)
def test_plain_statements_are_kept(said: str) -> None:
    assert probability(said) >= CUT
    assert probability(said, asked="Noted.") >= CUT


@pytest.mark.parametrize(
    "said",
    [
        "What is the capital of France?",
        "write a poem about the sea",
        "thanks!",
        "Can you recommend a book?",
        "ok",
        "hello",
        "I see. I'm not sure.",
        "explain quantum computing",
        "Do people usually go to Kauai on the first day?",
        "法国的首都是哪里？",
        "谢谢",
    ],
)
def test_plain_requests_questions_and_thanks_are_not(said: str) -> None:
    assert probability(said) < CUT
    assert probability(said, asked="Noted.") < CUT


def test_a_question_before_it_makes_an_answer_of_a_few_words() -> None:
    assert probability("Window.", asked="Do you prefer aisle or window?") > probability("Window.")


def test_the_sentences_of_a_message_know_their_places() -> None:
    first, second = in_message(["I live in Bonn. ", "You?"], "I live in Bonn. You?", "Hi!")
    assert (first.before, first.place, first.count) == ("", 0, 2)
    assert (second.before, second.place, second.asked) == ("I live in Bonn. ", 1, "Hi!")
