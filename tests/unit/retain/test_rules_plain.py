"""Plain statements that come with an adverb, a purpose or a form of their own."""

import pytest

from semrouter_memory.model import MemoryType
from semrouter_memory.retain import rules


def contents(text: str) -> list[str]:
    return [statement.content for statement in rules.read(text)[0]]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("I'm severely allergic to sesame.", "User is severely allergic to sesame"),
        ("I'm very allergic to bee stings.", "User is very allergic to bee stings"),
        ("By the way, I'm deathly allergic to kiwi.", "User is deathly allergic to kiwi"),
        ("mildly allergic to cats btw", "User is mildly allergic to cats"),
        ("I'm newly married", "User is newly married"),
        ("I'm legally blind in one eye", "User is legally blind in one eye"),
        ("My son is severely allergic to eggs.", "User's son is severely allergic to eggs"),
    ],
)
def test_how_much_somebody_is_something_hides_nothing(said: str, stored: str) -> None:
    assert contents(said) == [stored]


def test_a_second_state_may_have_an_adverb_too() -> None:
    assert contents("I'm strictly vegan and highly allergic to nuts") == [
        "User is strictly vegan",
        "User is highly allergic to nuts",
    ]


@pytest.mark.parametrize(
    "said",
    ["I'm very tired.", "I'm really sorry.", "I'm probably pregnant", "My wife is very tired.", "I'm barely single"],
)
def test_an_adverb_makes_nothing_lasting_or_certain(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("I take warfarin for my heart.", "User takes warfarin for their heart"),
        ("I take levothyroxine", "User takes levothyroxine"),
        ("I use an inhaler for my asthma", "User uses an inhaler for their asthma"),
        (
            "I take ibuprofen for my knee, which I injured skiing last winter.",
            "User takes ibuprofen for their knee, which the user injured skiing last winter",
        ),
    ],
)
def test_a_medicine_is_taken_again_and_again(said: str, stored: str) -> None:
    assert contents(said) == [stored]


@pytest.mark.parametrize(
    "said",
    ["I take the bus for my commute", "I take a screenshot", "I take a break for my back", "I need help for my back"],
)
def test_what_else_is_taken_is_no_medicine(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Call me Sam.", "Sam"),
        ("Please call me Dr. Okafor", "Dr. Okafor"),
        ("You can call me Max", "Max"),
        ("Everyone calls me Joey", "Joey"),
    ],
)
def test_a_name_to_be_called_by_is_remembered(said: str, name: str) -> None:
    assert contents(said) == [f"User is called {name}"]


@pytest.mark.parametrize("said", ["Call me back later.", "Call me Monday.", "Call me Tuesday at 5.", "Call me Later"])
def test_a_wish_for_a_call_is_no_name(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (
            "When you write code for me, use 2-space indentation.",
            "User wants the assistant to use 2-space indentation when it writes code for the user",
        ),
        ("When you answer, never use emojis", "User wants the assistant never to use emojis when it answers"),
        (
            "Use British spelling when you write emails for me.",
            "User wants the assistant to use British spelling when it writes emails for the user",
        ),
    ],
)
def test_what_shall_hold_whenever_the_assistant_does_a_thing_is_a_preference(said: str, stored: str) -> None:
    (found,) = rules.read(said)[0]
    assert (found.type, found.content) == (MemoryType.REFLECTIVE, stored)


@pytest.mark.parametrize(
    "said",
    [
        "When you write the email, mention the budget.",
        "When you write this function, use recursion.",
        "When you reply quickly, users are happy.",
        "When you divide by zero, return null.",
    ],
)
def test_an_order_for_the_thing_at_hand_is_no_preference(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("请用中文回答。", "用户希望助手用中文回答"),
        ("请用英语回复我", "用户希望助手用英语回复"),
        ("请回答得简短一些", "用户希望助手回答得简短一些"),
        ("请简短回答。", "用户希望助手简短回答"),
    ],
)
def test_a_chinese_wish_for_how_answers_are_given_is_a_preference(said: str, stored: str) -> None:
    (found,) = rules.read(said)[0]
    assert (found.type, found.content) == (MemoryType.REFLECTIVE, stored)


@pytest.mark.parametrize("said", ["写一首诗，请用中文回答。", "太长了，请简短回答"])
def test_a_chinese_wish_for_a_text_in_work_is_none(said: str) -> None:
    assert contents(said) == []


@pytest.mark.parametrize(
    ("said", "name"), [("叫我小王就行。", "小王"), ("请叫我Alex。", "Alex"), ("你可以叫我李雷就好", "李雷")]
)
def test_a_chinese_name_to_be_called_by_is_remembered(said: str, name: str) -> None:
    assert contents(said) == [f"用户希望被称呼为{name}"]


@pytest.mark.parametrize("said", ["叫我起床就行", "别叫我小王", "叫我怎么办", "明天早上叫我"])
def test_other_calling_in_chinese_is_no_name(said: str) -> None:
    assert contents(said) == []
