"""Chinese in regular expressions."""

import re
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START, in_form, simplified


@pytest.mark.parametrize("chinese", "一鿿㐀䶿豈我")
def test_a_word_ends_where_chinese_begins(chinese: str) -> None:
    assert CJK.fullmatch(chinese)
    assert re.search(f"{WORD_START}tea{WORD_END}", f"{chinese}TEA{chinese}", re.IGNORECASE)


@pytest.mark.parametrize("letter", "aZ1_éжか한")
def test_other_letters_belong_to_a_word(letter: str) -> None:
    assert not CJK.search(letter)
    assert not re.search(f"{WORD_START}tea", f"{letter}tea", re.IGNORECASE)
    assert not re.search(f"tea{WORD_END}", f"tea{letter}", re.IGNORECASE)


@pytest.mark.parametrize("boundary", [WORD_START, WORD_END])
def test_they_are_quickly_compiled_where_case_is_ignored(boundary: str) -> None:
    """Where case counts for them, the characters of the class are not folded one by one: hundreds are compiled at each start."""
    assert boundary.startswith("(?-i:")
    assert boundary.endswith(")")


def test_traditional_characters_become_simplified_ones_place_by_place() -> None:
    assert simplified("我住在臺北的內湖區，對花生過敏") == "我住在台北的内湖区，对花生过敏"
    for text in ("", "plain", "我住在上海", "Zoë 🙂 ۱۲"):
        assert simplified(text) == text


@given(st.text(st.sampled_from("aeäå가한नमि—😀\u0301\u0327\u0345\u0f73\uff9e"), max_size=30))
def test_a_text_without_a_long_run_of_marks_is_normalised_as_ever(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert in_form(form, text) == normalize(form, text)


@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u0f73", "\uff9e\u0301", "\u3099\u0301"])
@pytest.mark.parametrize("before", ["", "cafe", "caf" * 9 + "e", "—" * 40])
def test_of_a_long_run_of_marks_the_first_thirty_stay(marks: str, before: str) -> None:
    run = marks * (40 // len(marks))
    assert in_form("NFC", f"{before}{run}s") == normalize("NFC", f"{before}{run[:30]}s")
