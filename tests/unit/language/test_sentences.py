"""Sentences: where they end, and that nothing of the text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.sentences import sentences


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
