"""Which statements are derived from a user's words, and that none says what they do not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.terms import terms
from semrouter_memory.retain import quotes
from semrouter_memory.retain.facts import covers, is_replaced
from semrouter_memory.retain.statements import facts

from .conftest import MakeTurn


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("my budget for the Hawaii trip is $10,000", "User's budget for the Hawaii trip is $10,000"),
        ("btw my rent went up to 1,250", "User's rent is 1,250"),
        ("Our dog's name is Luna now", "User's dog's name is Luna"),
        ("the cat is called Miso", "User's cat is called Miso"),
        ("my favourite food is fish tacos, hands down", "User's favourite food is fish tacos"),
        ("my dentist appointment is on 5 June at 14:30", "User's dentist appointment is on 5 June at 14:30"),
        ("The deadline for the grant is 3 May", "User's deadline for the grant is 3 May"),
        ("remember that my landlord is Tom", "User's landlord is Tom"),
        ("hi, I'm a staff nurse on a stroke ward", "User is a staff nurse on a stroke ward"),
        ("I'm 34 years old", "User is 34 years old"),
        ("I am vegan", "User is vegan"),
        ("I'm allergic to peanuts and sesame", "User is allergic to peanuts and sesame"),
        ("I live in Oslo because of my job", "User lives in Oslo"),
        ("we've moved to Rennes", "User moved to Rennes"),
        ("I work at Vestmark", "User works at Vestmark"),
        ("I just got a job at Siemens!", "User got a job at Siemens"),
        ("I prefer short answers", "User prefers short answers"),
        ("I hate Mondays", "User hates Mondays"),
        ("I drive a Dacia Duster", "User drives a Dacia Duster"),
        ("I have two kids", "User has two kids"),
        ("I have a budget of 300 euros for shoes", "User has a budget of 300 euros for shoes"),
        ("always answer in Spanish please", "User wants the assistant to always answer in Spanish"),
        ("call me Jo", "User wants to be called Jo"),
        ("我住在北京", "用户住在北京"),
        ("我的预算是两万", "用户的预算是两万"),
        ("我最喜欢的书是三体", "用户最喜欢的书是三体"),
        ("我对花生过敏", "用户对花生过敏"),
        ("我在腾讯工作", "用户在腾讯工作"),
        ("我今年35岁", "用户35岁"),
        ("我的狗叫豆豆", "用户的狗叫豆豆"),
    ],
)
def test_what_is_said_for_certain_becomes_a_statement(said: str, text: str) -> None:
    assert [fact.text for fact in facts(said)] == [text]
    assert [fact.text for fact in facts(text)] == [text] or "wants" in text, "a statement reads as itself"


@pytest.mark.parametrize(
    "said",
    [
        "is my budget for Hawaii $10,000?",
        "if I lived in Rome I'd be happy",
        "suppose I work at Vestmark",
        "I don't live in Oslo",
        "I used to live in Oslo",
        "I might have two kids one day",
        "my sister lives in Oslo",
        "she says my budget is 400",
        "my wife's budget is 300",
        "my car is broken",
        "my job is killing me",
        "I'm a bit tired",
        "I'm moving to Rome",
        "I like that one",
        "I love you",
        "call me later",
        "I have a question",
        "I have a lot of work",
        "I live in a small flat",
        "would you say I'm a writer",
        "如果我住在北京",
        "我不住在北京",
        "我妈妈住在北京",
        "听说我的预算是两万",
    ],
)
def test_in_doubt_there_is_none(said: str) -> None:
    assert facts(said) == ()


@pytest.mark.parametrize(
    ("before", "said", "text", "about"),
    [
        ("my budget for the Hawaii trip is $10,000", "actually it's 15,000 now",
         "User's budget for the Hawaii trip is 15,000", "my budget for the Hawaii trip"),
        ("my flight is on 12 May", "sorry, make that the 14th", "User's flight is the 14th", "my flight"),
        ("what's my Hawaii budget again?", "actually it's 15,000 now",
         "User's Hawaii budget is 15,000", "my Hawaii budget"),
        ("my budget for Rome is 300 and my dog's name is Rex", "no, it's 350", "User's budget for Rome is 350", "my budget for Rome"),
    ],
)  # fmt: skip
def test_a_correction_gives_its_value_to_what_was_spoken_of(
    make_turn: MakeTurn, before: str, said: str, text: str, about: str
) -> None:
    turns = [make_turn(before), make_turn(said, number=2)]
    for found in (quotes.candidates(turns), quotes.candidates(turns[1:], turns[:1])):
        (corrected,) = [candidate for candidate in found if candidate.content == said]
        assert ([fact.text for fact in corrected.facts], corrected.context) == ([text], about)


@pytest.mark.parametrize("verb", ["是", "现在是", "目前是", "现为", "改为"])
def test_a_value_of_now_in_chinese_is_one_of_the_same_attribute(verb: str) -> None:
    assert [fact.text for fact in facts(f"我的预算{verb}15,000美元")] == ["用户的预算是15,000美元"]


def test_a_correction_in_chinese_gives_its_value_to_what_was_spoken_of() -> None:
    assert [fact.text for fact in facts("现在改成三万了", "我的预算是两万")] == ["用户的预算是三万"]


def test_a_correction_of_a_correction_speaks_of_the_same(make_turn: MakeTurn) -> None:
    turns = [
        make_turn(text, number=number)
        for number, text in enumerate(
            ["my budget for the Oslo trip is 900", "actually it's 950 now", "no wait, it's 990 now"]
        )
    ]
    *_, last = quotes.candidates(turns)
    assert [fact.text for fact in last.facts] == ["User's budget for the Oslo trip is 990"]
    assert quotes.candidates(turns[2:], turns[:2])[0].facts == last.facts


@pytest.mark.parametrize("said", ["it's raining now", "it's 20 degrees", "that's a nice name"])
def test_not_every_short_sentence_is_a_correction(said: str) -> None:
    assert facts(said, "my dog's name is Rex") == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("my budget for the Hawaii trip is $10,000", "my Hawaii budget is 15k now"),
        ("my favourite food is sushi", "my favorite food is ramen"),
        ("my favourite book is Middlemarch", "my favourite book is Stoner"),
        ("my favourite sport is tennis", "my favourite sport is curling these days"),
        ("I drive a Dacia Duster", "my car is a Renault 5 now"),
        ("my dog's name is Rex", "our dog is called Luna"),
        ("I live in Oslo", "User moved to Rennes"),
        ("I work at Vestmark", "I got a job at Siemens"),
        ("I'm a nurse", "I work as a teacher now"),
        ("我住在北京", "我搬到了上海"),
    ],
)
def test_a_new_value_replaces_the_old_one(old: str, new: str) -> None:
    (before,), (after,) = facts(old), facts(new)
    assert is_replaced(before, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("my budget for Rome is 300", "my budget for Hawaii is 400"),
        ("my daughter's name is Mia", "my daughter's name is Zoe"),
        ("I like tea", "I like coffee"),
        ("I'm allergic to peanuts", "I'm allergic to sesame"),
        ("my budget for Rome is $10,000", "my budget for Rome is 10k"),
        ("my wedding is on 12 May", "my wedding is in Bled"),
        ("my favourite food is sushi", "my favourite drink is tea"),
        ("I moved to Rennes last month", "I live in Rennes"),
    ],
)
def test_what_both_may_hold_is_not_replaced(old: str, new: str) -> None:
    (before,), (after,) = facts(old), facts(new)
    assert not is_replaced(before, after)


WORDS = """I I'm I've we my our User User's the a live in lives moved to work at as got job name is are called now budget for
favourite food dog's dog car Rex Oslo sushi $10,000 15k 5 May and but because if not never actually it's make that always answer
short nurse vegan allergic to peanuts . , ? ! 我 我的 住在 北京 预算 是 两万 叫 现在 改成 了 对 过敏 ， 。""".split()  # noqa: SIM905
TEXT = st.lists(st.sampled_from(WORDS), max_size=16).map(" ".join) | st.text(max_size=120)
FRAME = {"assist", "call", "want", "name", *terms("用户是叫的名字")}


@given(TEXT, TEXT)
def test_a_statement_says_nothing_that_its_quote_and_its_context_do_not(text: str, context: str) -> None:
    for fact in facts(text, context):
        assert fact.value
        assert {*terms(fact.text)} - FRAME <= {
            *terms(re.sub("[是叫的]", "", f"{text} {context}")),
            *terms(f"{text} {context}"),
        }
        assert re.match(r"User(?:'s)? \S|用户", fact.text)
        assert covers(fact.text, fact.text)
