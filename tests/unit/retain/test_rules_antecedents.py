"""Whom and what a pronoun may stand for, and what "the" does not make the user's."""

import pytest

from semrouter_memory.retain import rules

from .conftest import MakeTurn

FLIGHT = "My flight to Lisbon is on May 3."
SISTER = "My sister lives in Rome."


def contents(text: str) -> list[str]:
    return [statement.content for statement in rules.read(text)[0]]


def of_session(make_turn: MakeTurn, *said: str) -> list[str]:
    turns = [make_turn(text, number=number) for number, text in enumerate(said, start=1)]
    return [candidate.content for candidate in rules.candidates(turns)]


@pytest.mark.parametrize(
    "said",
    [
        "The hotel is the Alba, booking code is under my name, it costs 180 euros a night.",
        "We found a hostel near the port, it costs 40 euros a night.",
        "My suitcase is at the office. It weighs 12 kilos.",
        "What does the ferry cost? It costs 60 euros per person.",
        "Hotel Alba has a pool. It costs 180 euros a night.",
        "I bought a lens, it weighs 900 grams.",
    ],
)
@pytest.mark.parametrize("between", [(), ("ok",)])
def test_it_is_not_what_was_named_before_something_nearer(
    make_turn: MakeTurn, between: tuple[str, ...], said: str
) -> None:
    found = of_session(make_turn, FLIGHT, *between, said)
    assert [content for content in found[1:] if "flight" in content] == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("It leaves at 9 from Terminal 2.", "User's flight leaves at 9 from Terminal 2"),
        ("it's been moved to May 5", "User's flight has been moved to May 5"),
        ("The flight is with TAP, it costs 180 euros.", "User's flight costs 180 euros"),
        ("It costs 180 euros in the morning, it takes 3 hours.", "User's flight takes 3 hours"),
    ],
)
def test_it_stays_what_was_named_while_nothing_else_is(make_turn: MakeTurn, said: str, stored: str) -> None:
    assert of_session(make_turn, FLIGHT, "thanks!", said)[-1] == stored


@pytest.mark.parametrize(
    "said",
    [
        "Anna came by, she is allergic to nuts.",
        "I had dinner with Anna, she has two kids.",
        "The nurse is from Bonn, she has two kids.",
        "I met a student, she is allergic to nuts.",
        "My neighbour's daughter is a dentist, she has two kids.",
        "She has a daughter. She is 4.",
    ],
)
def test_she_is_not_somebody_named_before_another(make_turn: MakeTurn, said: str) -> None:
    found = of_session(make_turn, SISTER, said)
    assert not [content for content in found if "User's sister" in content and ("kids" in content or " is " in content)]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("She has two kids.", "User's sister has two kids"),
        ("She is a nurse. She works in a hospice.", "User's sister works in a hospice"),
    ],
)
def test_she_stays_who_was_named_while_nobody_else_is(make_turn: MakeTurn, said: str, stored: str) -> None:
    assert of_session(make_turn, SISTER, said)[-1] == stored


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("My mum called my sister, she is 40.", ["User's mum called the user's sister"]),
        ("My wife and our dog live in Ulm, she is 40.", ["User's wife and the user's dog live in Ulm"]),
        ("My dad lives in Ulm. My boss is 50, he likes golf.", ["User's dad lives in Ulm", "User's boss is 50", "User's boss likes golf"]),
    ],
)  # fmt: skip
def test_of_two_people_a_pronoun_is_the_nearer_subject_or_nobody(said: str, stored: list[str]) -> None:
    assert contents(said) == stored


def test_what_is_rented_is_no_rent() -> None:
    assert contents("I rent a flat in Graz, it costs 800 a month.") == ["User rents a flat in Graz"]


def test_a_joke_leaves_nothing_that_a_pronoun_stands_for(make_turn: MakeTurn) -> None:
    found = of_session(make_turn, FLIGHT, "yeah right, I wish I had a castle", "it costs 180 euros a night")
    assert found == ["User's flight to Lisbon is on May 3"]


@pytest.mark.parametrize("who", ["sister", "brother"])
def test_a_dog_of_somebody_else_is_neither_the_users_nor_its_owner(who: str) -> None:
    assert contents(f"My {who} has a poodle, he is 3 months old.") == [f"User's {who} has a poodle"]


def test_a_dog_that_the_user_shares_is_theirs() -> None:
    assert contents("My wife and I have a poodle, he is 3 months old.")[-1] == "User's poodle is 3 months old"


def test_it_in_a_thread_is_not_its_topic_when_something_else_was_named(make_turn: MakeTurn) -> None:
    said = "help me plan a trip to Lisbon", "The hotel is the Alba, it's a 4 star place with 12 rooms"
    assert of_session(make_turn, *said) == ["User wants to plan a trip to Lisbon"]


@pytest.mark.parametrize(
    "said",
    [
        "The shop is called Bloom, it costs 40 euros a month to park there.",
        "The project is called Halyard.",
        "The gym opens at 6.",
        "The flat costs 900 euros a month.",
        "The clinic is at 12 Elm Road.",
    ],
)
def test_a_place_or_a_thing_for_sale_is_not_the_users_for_its_article(said: str) -> None:
    assert contents(said) == []


def test_the_users_own_shop_is_remembered() -> None:
    assert contents("My shop is called Bloom, it costs 40 euros a month.") == [
        "User's shop is called Bloom",
        "User's shop costs 40 euros a month",
    ]


@pytest.mark.parametrize("kin", ["妈妈", "爸爸", "奶奶", "姐姐", "哥哥", "弟弟", "妹妹", "老板", "表哥", "女朋友"])
def test_a_chinese_word_for_a_relation_is_kept_whole(kin: str) -> None:
    assert contents(f"我{kin}的生日是五月二十号。") == [f"用户{kin}的生日是五月二十号"]


@pytest.mark.parametrize(("short", "full"), [("妈", "妈妈"), ("爸", "爸爸"), ("姐", "姐姐")])
def test_a_short_chinese_word_for_a_relation_is_written_in_full(short: str, full: str) -> None:
    assert contents(f"我{short}的生日是五月。") == [f"用户{full}的生日是五月"]


@pytest.mark.parametrize(
    "said", ["酒店的经理很好，她喜欢跳舞。", "我妈妈的朋友住在上海，她喜欢跳舞。", "我的老师姓王，她喜欢跳舞。"]
)
def test_a_chinese_pronoun_is_not_somebody_named_before_another(said: str) -> None:
    assert "用户的妈妈喜欢跳舞" not in contents(f"我妈妈住在北京。{said}")


def test_a_chinese_pronoun_stays_who_was_named() -> None:
    assert contents("我妈妈是老师，她喜欢跳舞。") == ["用户的妈妈是老师", "用户的妈妈喜欢跳舞"]
