"""What the rules make of corrections, decisions and reasons, and what they must not make of words of others."""

import pytest

from semrouter_memory.model import MemoryType
from semrouter_memory.retain import rules
from semrouter_memory.retain.rules.corrections import corrected
from semrouter_memory.retain.rules.topic import topic_of

from .conftest import MakeTurn


def contents(text: str) -> list[str]:
    return [statement.content for statement in rules.read(text)[0]]


def of_session(make_turn: MakeTurn, *said: str, answer: str = "All right.") -> list[str]:
    turns = [make_turn(text, number=number, assistant_text=answer) for number, text in enumerate(said, start=1)]
    return [candidate.content for candidate in rules.candidates(turns)]


@pytest.mark.parametrize(
    ("stated", "said", "right"),
    [
        ("User's exam is on june 4th", "sorry, june 5th", "User's exam is on june 5th"),
        ("User meets the notary on thursday at 3pm", "no wait, 4pm", "User meets the notary on thursday at 4pm"),
        ("User's recital is on Monday", "oops, Tuesday", "User's recital is on Tuesday"),
        ("User's budget is 300 euros", "I meant 350 euros", "User's budget is 350 euros"),
        ("User is off from june 4th to june 9th", "sorry, june 5th", ""),
        ("User's exam is on june 4th", "june 5th", ""),
        ("User's exam is on june 4th", "sorry, I was away", ""),
        ("User has two dogs", "sorry, june 5th", ""),
        ("", "sorry, june 5th", ""),
    ],
)
def test_a_value_alone_corrects_the_only_one_of_its_kind(stated: str, said: str, right: str) -> None:
    assert corrected(said, stated) == right


def test_a_correction_is_about_what_was_said_before_it(make_turn: MakeTurn) -> None:
    found = of_session(make_turn, "I've got my driving test on may 3rd", "sorry, may 4th")
    assert found[-1] == "User has got their driving test on may 4th"


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("let's go with the omnibook", "User's choice for a laptop is the omnibook"),
        ("ok we'll take the thinkpad then", "User's choice for a laptop is the thinkpad"),
        ("taking the zenbook, thanks!", "User's choice for a laptop is the zenbook"),
    ],
)
def test_what_the_user_settles_on_is_a_decision(make_turn: MakeTurn, said: str, stored: str) -> None:
    assert of_session(make_turn, "recommend me a laptop", said) == [stored]


@pytest.mark.parametrize("said", ["let's go with the first one", "I'll take the bus", "let's go with the second query"])
def test_what_names_no_thing_is_no_decision(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("max 1400 a month, and it has to allow dogs, i have two greyhounds", ["User's limit is max 1400 a month", "User has two greyhounds"]),
        ("and use metric units, I'm from Finland", ["User prefers answers in metric units", "User is from Finland"]),
        ("I can only afford 800", ["User can only afford 800"]),
        ("my wife snores though", ["User's wife snores"]),
        ("there's a teacher in Bergamo, 35 euros", ["User knows of a teacher in Bergamo, 35 euros"]),
        ("dinner is on saturday at ours", ["User's dinner is on saturday at the user's place"]),
        ("I'm away 3-17 august", ["User is away 3-17 august"]),
        ("I check my pressure at 7 each morning", ["User checks their pressure at 7 each morning"]),
        ("I mostly edit video in davinci, need at least 32gb ram", ["User mostly edits video in davinci", "User needs at least 32gb ram"]),
        ("just give me bullet points from now on", ["User prefers answers as bullet points"]),
        ("remember: just give me bullet points", ["User prefers answers as bullet points"]),
        ("pls point out my mistakes whenever I make some", ["User wants the assistant to point out their mistakes whenever the user makes some"]),
        ("no statistics unless I ask", ["User wants no statistics unless the user asks"]),
        ("you always give me miles", ["User does not like that the assistant always gives the user miles"]),
        ("finished my first half marathon last Sunday", ["User finished their first half marathon last Sunday"]),
        ("next one I want under 2:05", ["User wants under 2:05 in the next one"]),
    ],
)  # fmt: skip
def test_casual_speech_reads_well_in_the_third_person(said: str, stored: list[str]) -> None:
    assert contents(said) == stored


def test_a_wish_about_answers_is_reflective_however_it_is_asked_for() -> None:
    (statement,) = rules.read("remember: just give me bullet points")[0]
    assert statement.type is MemoryType.REFLECTIVE


def test_a_statement_in_answer_to_a_choice_is_no_choice(make_turn: MakeTurn) -> None:
    said = "how about a trip to Portugal?", "no! I love it here in Kilkenny"
    assert of_session(make_turn, *said, answer="Do you want to?") == ["User loves it here in Kilkenny"]


@pytest.mark.parametrize(
    "said",
    ["my neighbour told me to plan a trip to Portugal", "she says we need a caravan", "I am not going to Malta"],
)
def test_what_others_say_is_no_topic_of_the_user(said: str) -> None:
    assert topic_of(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "Let's go with the hypothetical: I inherit a vineyard in Mendoza",
        "I will kill 3 wolves by friday in this game",
        "my aunt's friend lost 4 kg on keto",
        "our move to Ulm isn't real",
        "no wait, Lily",
        "the dog in this picture is white",
        "no time for that",
        "there are 5 oceans",
        "don't call the api twice",
    ],
)
def test_what_is_not_of_the_user_stays_out(said: str) -> None:
    assert contents(said) == []


def test_a_dog_in_a_picture_is_not_the_user_s(make_turn: MakeTurn) -> None:
    assert of_session(make_turn, "the dog in this picture looks ill, right?", "she's white and has 3 spots") == []


def test_the_baby_is_the_user_s(make_turn: MakeTurn) -> None:
    assert of_session(make_turn, "I read while feeding the baby", "she's 4 months, called Noor")[-1] == (
        "User's baby is 4 months, called Noor"
    )
