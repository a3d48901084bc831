"""A Chinese question must share a word with a memory; the model's cosine alone says nothing about it."""

import pytest

from semrouter_memory.recall import vector_search


@pytest.mark.parametrize(
    ("query", "content", "allowed"),
    [
        ("我的预算是多少？", "用户的夏威夷旅行预算是一万美元", True),
        ("我住在哪里？", "用户住在柏林", True),
        ("我对什么过敏？", "用户对花生过敏", True),
        ("我的 budget 是多少？", "User's budget is $10,000", True),
        ("法国的首都是哪里？", "用户住在柏林", False),
        ("推荐一部电影", "用户喜欢喝绿茶", False),
        ("我的预算是多少？", "User lives in Berlin", False),
        ("那个呢？", "用户住在柏林", True),
    ],
)
def test_what_a_query_allows(query: str, content: str, *, allowed: bool) -> None:
    units = frozenset(vector_search._chinese_units(query))
    assert vector_search._shares(units, content) is allowed
