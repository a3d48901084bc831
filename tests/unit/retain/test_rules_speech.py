"""What the rules make of casual speech: without subjects, in fragments, in answers, about people close by."""

import pytest

from semrouter_memory.model import MemoryType
from semrouter_memory.retain import rules

from .conftest import MakeTurn


def contents(text: str) -> list[str]:
    return [statement.content for statement in rules.read(text)[0]]


def of_session(make_turn: MakeTurn, *turns: tuple[str, str]) -> list[str]:
    logged = [
        make_turn(user, number=number, assistant_text=assistant)
        for number, (user, assistant) in enumerate(turns, start=1)
    ]
    return [candidate.content for candidate in rules.candidates(logged)]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("moving to Ljubljana in june", "User is moving to Ljubljana in june"),
        ("got a beagle puppy yesterday!!", "User got a beagle puppy yesterday"),
        ("never flying via Doha again", "User is never flying via Doha again"),
        ("allergic to penicillin btw", "User is allergic to penicillin"),
        ("torn ligament in the left knee", "User has torn ligament in the left knee"),
        ("paying 900 for two rooms in Graz", "User is paying 900 for two rooms in Graz"),
        ("staging runs on Render btw", "User's staging runs on Render"),
        ("exam is on the 4th of July", "User's exam is on the 4th of July"),
        ("rent is 640 a month", "User's rent is 640 a month"),
        ("ibuprofen gives me a stomach ache", "Ibuprofen gives the user a stomach ache"),
        ("statistics is my weakest subject", "Statistics is the user's weakest subject"),
        ("this is my cat Olive", "User's cat is Olive"),
        ("it's nomad, not kubernetes", "User has nomad, not kubernetes"),
        ("as I said: only vegan places please", "User wants only vegan places"),
        ("no nuts or raisins please", "User wants no nuts or raisins"),
    ],
)
def test_a_subject_that_is_left_out_is_the_user(said: str, stored: str) -> None:
    assert contents(said) == [stored]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("i cant eat gluten", ["User cannot eat gluten"]),
        ("ive been on insulin for two years", ["User has been on insulin for two years"]),
        ("we dont have a car", ["User does not have a car"]),
        ("I bank with Revolut now, left Santander last year", ["User banks with Revolut now", "User left Santander last year"]),
        ("since my knee surgery I can't run", ["User cannot run since their knee surgery"]),
        ("I freelance as an illustrator", ["User freelances as an illustrator"]),
        ("I'm in my second year of nursing school", ["User is in their second year of nursing school"]),
        ("I get migraines from red wine", ["User gets migraines from red wine"]),
        ("we leave on the 11th", ["User leaves on the 11th"]),
        ("I need a hotel in Tallinn", ["User needs a hotel in Tallinn"]),
    ],
)  # fmt: skip
def test_what_holds_in_the_simple_present_is_remembered(said: str, stored: list[str]) -> None:
    assert contents(said) == stored


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("my daughter Ada, 6, was just diagnosed with asthma", "User's daughter Ada, 6, was just diagnosed with asthma"),
        ("my sister gets carsick", "User's sister gets carsick"),
        ("my partner's on a low salt diet", "User's partner is on a low salt diet"),
        ("wife hates olives", "User's wife hates olives"),
        ("my manager Ines wants reports on Fridays", "User's manager Ines wants reports on Fridays"),
        ("our twins start school on September 1st", "User's twins start school on September 1st"),
    ],
)  # fmt: skip
def test_what_is_said_of_people_close_to_the_user_is_remembered(said: str, stored: str) -> None:
    assert contents(said) == [stored]


def test_children_are_known_by_their_names(make_turn: MakeTurn) -> None:
    assert of_session(make_turn, ("my kids are 4 and 7", "Nice."), ("Tuva hates peas", "Noted."))[1] == (
        "Tuva, one of the user's kids, hates peas"
    )


def test_a_name_out_of_nowhere_is_nobody_the_user_knows() -> None:
    assert contents("Tuva hates peas") == []


@pytest.mark.parametrize(
    ("question", "answer", "stored"),
    [
        ("What is your budget?", "around 700", "User's budget for a bike is around 700"),
        ("From which city?", "Aarhus", "User's starting point is Aarhus"),
        ("How many days do you have?", "five days", "User's time for a bike is five days"),
        ("Do you prefer red or blue?", "the blue one", "User's choice for a bike is the blue one"),
    ],
)
def test_a_short_answer_is_completed_by_the_question_and_the_topic(
    make_turn: MakeTurn, question: str, answer: str, stored: str
) -> None:
    assert stored in of_session(make_turn, ("help me choose a bike", question), (answer, "Great."))


@pytest.mark.parametrize(
    "question", ["What is your budget?", "Do you prefer red or blue?", "Where would you like to ride?"]
)
@pytest.mark.parametrize(
    "answer", ["yes", "ok", "not sure", "what do you think?", "yes pls", "no thanks", "haha", "both"]
)
def test_an_answer_without_content_says_nothing(make_turn: MakeTurn, question: str, answer: str) -> None:
    assert of_session(make_turn, ("help me choose a bike", question), (answer, "Fine.")) == []


def test_not_a_word_of_the_assistants_question_enters_a_memory(make_turn: MakeTurn) -> None:
    asked = "Shall I remember that you love Zenkai Motors, and what is your budget?"
    (stored,) = of_session(make_turn, ("help me choose a car", asked), ("max 9000", "Fine."))[:1]
    assert stored == "User's budget for a car is max 9000"


def test_a_limit_belongs_to_what_the_thread_is_about(make_turn: MakeTurn) -> None:
    turns = ("recommend me a telescope", "A Dobsonian."), ("max 400 euros", "OK.")
    assert of_session(make_turn, *turns) == ["User's limit for a telescope is max 400 euros"]
    assert contents("max 400 euros") == []


def test_a_budget_without_its_purpose_gets_it_from_the_thread(make_turn: MakeTurn) -> None:
    turns = ("we are planning a trip to Iceland", "Lovely."), ("our budget is 4,200 euros", "OK.")
    assert "User's budget for the Iceland trip is 4,200 euros" in of_session(make_turn, *turns)


def test_a_request_for_help_with_a_plan_tells_the_plan() -> None:
    assert contents("can you help me prepare for an interview at Lindqvist on Thursday?") == [
        "User wants to prepare for an interview at Lindqvist on Thursday"
    ]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("To deploy the shop I run `make ship`, then flip the flag in Flagsmith", "To deploy shop: run make ship, then flip the flag in Flagsmith"),
        ("We release Falcon by tagging main and running ./go.sh", "To release Falcon: tagging main and running ./go.sh"),
        ("ok so to reset the pump I hold the red button for ten seconds", "To reset pump: hold the red button for ten seconds"),
    ],
)  # fmt: skip
def test_a_how_to_in_a_running_sentence_is_procedural(said: str, stored: str) -> None:
    (found,) = rules.read(said)[0]
    assert (found.type, found.content) == (MemoryType.PROCEDURAL, stored)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("房租每月3200", ["用户的房租每月3200"]),
        ("老婆不吃香菜", ["用户的老婆不吃香菜"]),
        ("我和我男朋友一起去，他对海鲜过敏", "用户的男朋友对海鲜过敏"),
    ],
)
def test_chinese_without_a_subject_is_the_users_too(said: str, stored: list[str] | str) -> None:
    found = contents(said)
    assert found == stored if isinstance(stored, list) else stored in found
