"""Values of any text: none stops the reading of it, and what is no value stays where it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semrouter_memory.language.values import folded, split
from tests.examples import examples

FIGURES = ("3", "45", "2026", "1,200", "2.5", "２", "3@b.de", "一万", "三", "one", "twenty")
SIGNS = ("$", "€", "元", "usd", "%", "°", "-", ":", ".", "+", "(", ")", " ", "点", "月", "号", "²")
WORDS = (
    "may",
    "sept",
    "of",
    "first",
    "monday",
    "pm",
    "th",
    "old",
    "year",
    "km",
    "k",
    "the",
    "é",
    "http://example.com/3",
    "周",
    "下午",
    "半",
)
WITHOUT_VALUES = ("the", "trip", "maybe", "oneself", "décor", "ß", "狗", ",", ".", "(", "-")


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from((FIGURES, SIGNS, WORDS)).flatmap(st.sampled_from), max_size=12).map("".join))
def test_every_text_is_read(text: str) -> None:
    found, rest = split(text)
    assert all(value.partition(":")[2] for value in found)
    assert bool(found) or rest == folded(text) or "一万" in text


@given(st.lists(st.sampled_from(WITHOUT_VALUES), max_size=12).map(" ".join))
def test_a_text_without_values_stays_as_it_is(text: str) -> None:
    assert split(text) == (frozenset(), folded(text))
