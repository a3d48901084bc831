"""Asking in the voice of the memories."""

import pytest

from semrouter_memory.language.third_person import is_personal, to_third_person


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What's my budget for the trip?", "What's user's budget for the trip?"),
        ("Where do I live?", "Where does user live?"),
        ("am I allergic to nuts?", "is user allergic to nuts?"),
        ("Have I paid?", "has user paid?"),
        ("what did i say", "what did user say"),
        ("I'm vegan", "user is vegan"),
        ("I’m vegan and I’ve a dog", "user is vegan and user has a dog"),
        ("im vegan, ive a dog", "user is vegan, user has a dog"),
        ("I'd go if I'll be free", "user would go if user will be free"),
        ("tell me about myself", "tell user about user"),
        ("which of these is mine?", "which of these is user's?"),
        ("our flat, we rent it, it suits us", "user's flat, user rent it, it suits user"),
        ("Do we have a car?", "does user have a car?"),
        ("How do I deploy my service?", "how to deploy user's service?"),
        ("how should we deploy", "how to deploy"),
        ("MY BUDGET", "user's BUDGET"),
        ("我的预算是多少？", "用户的预算是多少？"),
        ("我们家在哪", "用户家在哪"),
        ("咱俩的计划，俺也去，本人同意", "用户俩的计划，用户也去，用户同意"),
        ("我們的預算", "用户的預算"),
    ],
)
def test_the_speaker_is_called_the_user(query: str, expected: str) -> None:
    assert to_third_person(query) == expected
    assert is_personal(query)


@pytest.mark.parametrize(
    "query",
    [
        *("Who was Elizabeth I?", "When did World War I end?", "Explain a Type I error", "i.e. that", "I/O errors"),
        *(
            "for i in range(3)",
            "a[i]",
            "i = 0",
            "i++",
            "US elections",
            "the us economy",
            "a gold mine",
            "the mine",
            "mime",
        ),
        *("自我介绍怎么写", "我国的人口", "我國的人口", "write a quicksort in Python", ""),
    ],
)
def test_what_only_looks_like_the_first_person_stays(query: str) -> None:
    assert to_third_person(query) == query
    assert not is_personal(query)
