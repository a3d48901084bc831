"""Chinese in regular expressions."""

import re
import time

import pytest

from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START


@pytest.mark.parametrize("chinese", "一鿿㐀䶿豈我")
def test_a_word_ends_where_chinese_begins(chinese: str) -> None:
    assert CJK.fullmatch(chinese)
    assert re.search(f"{WORD_START}tea{WORD_END}", f"{chinese}TEA{chinese}", re.IGNORECASE)


@pytest.mark.parametrize("letter", "aZ1_éжか한")
def test_other_letters_belong_to_a_word(letter: str) -> None:
    assert not CJK.search(letter)
    assert not re.search(f"{WORD_START}tea", f"{letter}tea", re.IGNORECASE)
    assert not re.search(f"tea{WORD_END}", f"tea{letter}", re.IGNORECASE)


def test_they_are_quickly_compiled_where_case_is_ignored() -> None:
    """Hundreds of them are, at each start. The blocks one by one, with case ignored, take ten times as long."""
    blocks = min(_seconds_to_compile(r"(?<![^\W\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])") for _ in range(5))
    assert min(_seconds_to_compile(WORD_START) for _ in range(5)) < blocks / 3


def _seconds_to_compile(pattern: str) -> float:
    re.purge()
    began = time.thread_time()
    re.compile(pattern, re.IGNORECASE)
    return time.thread_time() - began
