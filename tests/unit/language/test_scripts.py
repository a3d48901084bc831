"""Chinese in regular expressions."""

import re

import pytest

from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START, simplified


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
