"""Phrases are found token by token."""

import pytest

from semrouter_memory.language.phrases import Phrases, after, lists, phrases
from semrouter_memory.language.words import spans, tokens

PHRASES = lists("phrases", "semrouter_memory.language")
LISTED = Phrases(["scratch/strike that", "what i just? said", "your ... is/are", "别 记 住? 这个"])


@pytest.mark.parametrize(
    "text",
    [
        "Scratch that!",
        "please STRIKE that",
        "what I said",
        "what I just said, then",
        "your new name is Bob",
        "别记这个",
        "请别记住这个",
    ],
)
def test_what_is_a_phrase(text: str) -> None:
    assert LISTED.occur_in(text)


@pytest.mark.parametrize(
    "text",
    ["scratch", "scratched that", "what I have said", "your is", "your name. It is Bob", "别记", "that scratch", ""],
)
def test_what_is_none(text: str) -> None:
    assert not LISTED.occur_in(text)


def test_the_longest_phrase_counts() -> None:
    assert Phrases(["no", "no way"]).length_at(tokens("no way"), 0) == len(("no", "way"))
    assert Phrases(["no"]).length_at((), 0) == 0


def test_what_is_skipped() -> None:
    assert after(tokens("ok, so: I live"), Phrases(["ok", "so"])) == len(("ok", ",", "so", ":"))


@pytest.mark.parametrize("text", ["I'm 34, 我住在北京!", "  a  b ", "x-y_z: 1.5", ""])
def test_each_token_has_its_place(text: str) -> None:
    found = ["0" if text[start:end].isdigit() else text[start:end].lower() for start, end in spans(text)]
    assert tuple(found) == tokens(text)


def test_no_two_lists_have_one_name() -> None:
    assert not PHRASES.keys() & lists("word_lists", "semrouter_memory.language").keys()


@pytest.mark.parametrize("name", PHRASES)
def test_every_list_has_phrases(name: str) -> None:
    assert any(phrases(name).length_at(variant, 0) for first in phrases(name)._by_first.values() for variant in first)
