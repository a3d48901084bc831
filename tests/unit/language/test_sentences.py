"""Sentences: where they end, and that nothing of the text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.sentences import asks, is_courtesy, sentences, tells_besides


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I live in Bonn. I work.", ["I live in Bonn. ", "I work."]),
        ("Really?! Yes!", ["Really?! ", "Yes!"]),
        ("no stop at the end", ["no stop at the end"]),
        ("one\ntwo\n\nthree", ["one\n", "two\n\n", "three"]),
        ("It costs 3.50 at 10.30, v1.2.3.", ["It costs 3.50 at 10.30, v1.2.3."]),
        ("Dr. Mehta and Mrs. Penrose came. Ok.", ["Dr. Mehta and Mrs. Penrose came. ", "Ok."]),
        ("See you at 5 p.m. on Monday", ["See you at 5 p.m. on Monday"]),
        ('She said "go." Then left.', ['She said "go." ', "Then left."]),
        ("Wait... what? ok", ["Wait... ", "what? ", "ok"]),
        ("我住在成都。我养猫！你呢？", ["我住在成都。", "我养猫！", "你呢？"]),
        ("我说“好。”然后走了", ["我说“好。”", "然后走了"]),
        ("1. first\n2. second", ["1. first\n", "2. second"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_a_sentence_ends_at_its_mark_or_line(text: str, pieces: list[str]) -> None:
    assert sentences(text) == pieces


@given(st.text(alphabet="aB1 .?!\n。？\"'”", max_size=60))
def test_joined_they_are_the_text(text: str) -> None:
    pieces = sentences(text)
    assert "".join(pieces).strip() == text.strip()
    assert all(piece.strip() for piece in pieces)


@pytest.mark.parametrize(
    "said",
    [
        "Have an interview at Bosch on Friday", "Had knee surgery in May", "Has a peanut allergy, the little one", "Don't eat pork",
        "haven’t been on a plane since 2015", "Was born in Cork", "Am a nurse in Leeds", "Will be in Rome from 3 to 9 May",
        "When I was six we moved to Bern", "What I want is a garden", "Were I to sell the boat at ninety", "Have my interview on Friday",
    ],
)  # fmt: skip
def test_a_statement_that_leaves_its_subject_out_is_no_question(said: str) -> None:
    assert not asks(said)


@pytest.mark.parametrize(
    "said",
    [
        "Have you got a recipe for lasagne", "has the euro replaced the kuna", "Had a cat?", "don't you think so", "was Einstein left handed",
        "will it rain", "have a look at this", "do cats dream", "do I own a drill", "didn't we book a table",
        "so can we fly with her", "你养猫吗", "你養貓嗎", "我叫啥",
    ],
)  # fmt: skip
def test_a_question_needs_no_mark(said: str) -> None:
    assert asks(said)


@pytest.mark.parametrize(
    "sentence",
    [
        *("Good morning!", "Hi Bob.", "How are you?", "Hey there, hope you're well.", "Thank you so much in advance!"),
        *("thanks, that helped!", "Sorry to bother you again.", "Cheers, Tom", "Have a lovely evening!", "Perfect."),
        *("No worries, Evan.", "你好！", "谢谢你的帮助！", "謝謝你的幫助！"),
    ],
)
def test_what_greets_thanks_or_wishes_well_is_a_courtesy(sentence: str) -> None:
    assert is_courtesy(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *(
            "Hey, I'm in Lisbon tomorrow.",
            "Thanks, who is Otto?",
            "Thanks, my new rent is 500.",
            "Thanks, I'd love one with a balcony.",
            "Hi, where do I live?",
        ),
        *(
            "Great weather for a barbecue.",
            "Any ideas?",
            "Hello, write a poem.",
            "你好，我住在哪里？",
            "谢谢，我的房租是多少？",
        ),
    ],
)
def test_what_says_something_else_is_none(sentence: str) -> None:
    assert not is_courtesy(sentence)


@pytest.mark.parametrize(
    "asked",
    [
        "I do everything on a Chromebook, is there a way to run it there?",
        "write a script - we’re on Alpine",
        "what can I cook (I have no oven)?",
        "plan two walks because my left knee is still bad",
        "which plan fits, I'm retired and hardly call",
        "怎么装，我用的是 Windows",
        "怎麼裝，我們用的是 Windows",
    ],
)
def test_a_part_of_a_question_or_an_order_may_tell_of_the_user(asked: str) -> None:
    assert tells_besides(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "how do I center a div?",
        "is it open, and what do I need?",
        "I want a poem, make it short",
        "how do you say it in Czech, I forgot",
        'translate "I live in Bonn, I work nights"',
        "朋友问：“今天，我过敏”，怎么回",
        "这个词，我没见过什么意思",
    ],
)
def test_what_is_wanted_quoted_or_of_the_moment_tells_nothing(asked: str) -> None:
    assert not tells_besides(asked)
