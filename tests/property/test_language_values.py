"""Values of any text: none stops the reading of it, and what is no value stays where it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semrouter_memory.language.values import folded, split
from tests.examples import examples
from tests.message_readers import FIGURES, SIGNS, WORDS

CHINESE_FIGURES = frozenset("一三")
"""Those of the pieces. Before a unit they are read as figures, whether these are a value then or not ("k三号")."""
WITHOUT_VALUES = ("the", "trip", "maybe", "oneself", "décor", "ß", "狗", ",", ".", "(", "-")


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from((FIGURES, SIGNS, WORDS)).flatmap(st.sampled_from), max_size=12).map("".join))
def test_every_text_is_read(text: str) -> None:
    found, rest = split(text)
    assert all(value.partition(":")[2] for value in found)
    assert found or rest == folded(text) or not CHINESE_FIGURES.isdisjoint(text)


@given(st.lists(st.sampled_from(WITHOUT_VALUES), max_size=12).map(" ".join))
def test_a_text_without_values_stays_as_it_is(text: str) -> None:
    assert split(text) == (frozenset(), folded(text))
