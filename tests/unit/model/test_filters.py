"""The filter's grammar, and which memories it wants."""

import math
from typing import Any

import pytest

from semrouter_memory.model import ANY_MEMORY, MemoryFilter, Scope, filterable, parse_filter
from semrouter_memory.model.filters import MAX_FILTER_CHARS, NO_TEXT
from tests.memories import memory

ATTACHED = {
    "category": "work",
    "team": "core",
    "page": 3,
    "price": 2.5,
    "done": True,
    "whole": 4.0,
    "说明": "工作",
    "a.b-c_d": "x, y",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "category=work",
        " category = work ",
        "metadata.category=work",
        "metadata.team=core",
        "metadata.page=3",
        "metadata.price=2.5",
        "metadata.whole=4",
        "metadata.done=true",
        "metadata.说明=工作",
        "metadata.%E8%AF%B4%E6%98%8E=%E5%B7%A5%E4%BD%9C",
        "metadata.a.b-c_d=x%2C y",
        "min_importance=0",
        "min_importance=0.5",
        "category=work,metadata.team=core,min_importance=0.5",
        "min_importance=0.2,min_importance=0.4",
    ],
)
def test_a_memory_that_fulfils_all_conditions_is_wanted(text: str) -> None:
    assert memory(Scope("alice"), metadata=ATTACHED) in parse_filter(text)


@pytest.mark.parametrize(
    "text",
    [
        "category=home",
        "category=Work",
        "category=wor",
        "category=work,category=home",
        "category=work,metadata.team=sales",
        "metadata.page=3.0",
        "metadata.page=4",
        "metadata.done=True",
        "metadata.done=1",
        "metadata.missing=x",
        "min_importance=0.51",
        "category=work,min_importance=1",
    ],
)
def test_a_memory_that_fails_one_of_them_is_not(text: str) -> None:
    assert memory(Scope("alice"), metadata=ATTACHED) not in parse_filter(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("work", "is written like"),
        ("category=work,", "is written like"),
        ("category", "is written like"),
        ("team=core", "category, min_importance and metadata.KEY"),
        ("Category=work", "category, min_importance and metadata.KEY"),
        ("project_id=x", "category, min_importance and metadata.KEY"),
        ("=x", "category, min_importance and metadata.KEY"),
        ("metadata.=x", "key"),
        ('metadata.a"]=x', "key"),
        ("metadata.a b=x", "key"),
        ("metadata.form=quote", "key"),
        ("metadata.turn_ids=t1", "key"),
        (f"metadata.{'k' * 65}=x", "key"),
        ("category=", "value"),
        ('category=a"b', "value"),
        ("category=%22 or owner != %22", "value"),
        ("category=a\\", "value"),
        ("category={x}", "value"),
        ("category=a%0Ab", "value"),
        ("category=%00", "value"),
        (f"category={'x' * 129}", "value"),
        ("min_importance=", "min_importance"),
        ("min_importance=high", "min_importance"),
        ("min_importance=nan", "min_importance"),
        ("min_importance=-0.1", "min_importance"),
        ("min_importance=1.1", "min_importance"),
        ("category=x," * MAX_FILTER_CHARS, "longer than"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_filter(text)


def test_two_filters_together_are_both() -> None:
    both = parse_filter("category=work,min_importance=0.2") & parse_filter("metadata.team=core,min_importance=0.4")
    assert both == parse_filter("metadata.team=core,category=work,min_importance=0.4")
    assert both & ANY_MEMORY == both
    assert memory(Scope("alice"), metadata=ATTACHED) not in both & parse_filter("category=home")


def test_only_a_filter_that_leaves_something_out_counts() -> None:
    assert not ANY_MEMORY
    assert not parse_filter("min_importance=0")
    assert parse_filter("category=work")
    assert MemoryFilter(min_importance=0.1)


@pytest.mark.parametrize(
    "value", [None, [], ["work"], {"a": 1}, "", "x" * 129, "a\nb", math.nan, 1e300, 2**70, "\ud800"]
)
def test_what_no_filter_can_name(value: Any) -> None:
    assert filterable(value) == ""


@pytest.mark.parametrize("text", ["08", "007", "-08", "00.5", "09.5", "1."])
def test_what_no_json_number_reads_like_is_a_text_alone(text: str) -> None:
    """An expression of the store reads 007 as an octal number, and 08 not at all."""
    assert filterable(text) == text
    assert not NO_TEXT.fullmatch(text)
