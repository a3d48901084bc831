"""The terms of a text: the same ones however something is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.terms import search_terms, terms, word_terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hiking trips", "Hike TRIP"),
        ("her sisters", "sister"),
        ("Anna's dog", "Anna’s dogs"),
        ("$10,000", "10000"),
        ("$10K", "10,000"),
        ("５０００", "5000"),
        ("ｂｕｄｇｅｔ", "budget"),
        ("5km", "5 km"),
        ("我的预算", "预算"),
        ("café in São Paulo", "cafe in Sao Paulo"),
        ("what is the budget", "budget"),
    ],
)
def test_two_spellings_have_the_same_terms(one: str, other: str) -> None:
    assert terms(one) == terms(other) != []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("budget budget", ["budget", "budget"]),
        ("", []),
        ("the of and what's it", []),
        ("one another's", []),
        ("-- ?! ...", []),
        ("room 42b", ["room", "42", "b"]),
        ("5m", ["5", "m"]),
        ("in May", ["maymonth"]),
        ("12 May", ["12", "maymonth"]),
        ("may I", []),
        ("1,234.50", ["1234.50"]),
        ("2026-05-04", ["2026-05-04", "2026", "maymonth"]),
        ("2026-05", ["2026-05", "2026", "maymonth"]),
        ("2026-13", ["2026-13", "2026"]),
        ("snake_case", ["snake", "case"]),
        ("花生过敏", ["花", "生", "过", "敏", "花生", "生过", "过敏"]),
        ("用Python写", ["用", "python", "写"]),
    ],
)
def test_a_text_has_these_terms(text: str, expected: list[str]) -> None:
    assert sorted(terms(text)) == sorted(expected)


def test_terms_stand_in_the_order_of_the_text() -> None:
    assert terms("Rex the beagle, born 2020-03-04") == ["rex", "beagl", "born", "2020-03-04", "2020", "march"]


@pytest.mark.parametrize(
    ("date", "month"),
    [("2026-01-02", "January"), ("2026-03-02", "March"), ("2026-09-02", "September"), ("2026-12-02", "December")],
)
def test_a_date_holds_the_name_of_its_month(date: str, month: str) -> None:
    assert terms(month)[0] in terms(date)


@pytest.mark.parametrize(("one", "other"), [("10", "100"), ("1.5", "15"), ("$10K", "$10"), ("Anna", "Ann")])
def test_what_differs_in_a_number_or_a_name_has_other_terms(one: str, other: str) -> None:
    assert not set(terms(one)) & set(terms(other))


@given(st.text() | st.from_regex(r"[0-9,.]{1,400}[km]?", fullmatch=True))
def test_no_text_has_an_empty_term(text: str) -> None:
    assert all(terms(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("我妻子叫什么", "老婆去上海了"),
        ("有什么慢性病", "他有高血压"),
        ("机票", "几点起飞"),
        ("职业", "她是护士"),
    ],
)
def test_chinese_words_of_one_concept_share_a_search_term(one: str, other: str) -> None:
    shared = {*search_terms(one)} & {*search_terms(other)}
    assert shared
    assert not {*terms(one)} & {*terms(other)}
    assert all(term.startswith("concept") for term in shared)


def test_a_search_term_of_a_concept_stands_once_and_other_texts_have_none() -> None:
    assert search_terms("老婆和太太") == [*terms("老婆和太太"), "conceptwife"]
    assert search_terms("my wife's flight") == terms("my wife's flight")
    assert search_terms("天地玄黄") == terms("天地玄黄")


def test_each_chinese_character_with_content_has_the_terms_of_its_words() -> None:
    assert word_terms("房租是多少") == [("房租", "conceptrent")] * 2
    assert word_terms("Wi-Fi 樹洞") == [*((term,) for term in terms("Wi-Fi")), ("树洞",), ("树洞",)]
    assert word_terms("猫呢") == [("猫", "conceptpet")]
    assert word_terms("这是什么") == []


def test_traditional_and_simplified_characters_give_the_same_terms() -> None:
    assert search_terms("我老婆是小學老師") == search_terms("我老婆是小学老师")
