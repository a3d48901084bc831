"""Other ways to find memories than the default one: by keywords, and with a model's help."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from .client import CHAT
from .conftest import ALICE, BOB, OTHERS, Installation, eventually, installed
from .extraction_llm import ExtractionLlm

pytestmark = pytest.mark.asyncio(loop_scope="session")

CAP = 6
"""More than a request gets by default, less than there are notes on Hawaii."""
HAWAII = [
    "User's budget for the Hawaii trip is $10,000",
    "User flies to Hawaii in May",
    "User's hotel in Hawaii is the Moana",
    "User's guide in Hawaii is called Kai",
    "User rents a jeep in HAWAII",
    "User was in Hawaii as a child",
    "User's visa for Hawaii is valid until June",
]
DOG, CHINESE = "User's dog is called Rex", "用户夏威夷旅行的预算是一万美元"
KNOWN = [*HAWAII, DOG, CHINESE]
"""Oldest first."""
PET = "What should I buy for my pet?"
"""Whoever takes its words as keywords finds nothing."""
HOTEL = "Where is my Hawaii hotel?"
EVENING = "Who waits for me at home in the evening?"


async def injected(on: Installation, text: str, *, key: str = ALICE) -> list[str]:
    """What the model was given for this message, in that order. Nothing is learned from it: only `knowing` says what is known."""
    async with on.http(key) as http:
        said = [{"role": "user", "content": text}]
        body: Any = {"model": "m", "messages": said, "memory_config": {"auto_store": False}}
        (await http.post(CHAT, json=body)).raise_for_status()
    seen = on.llm.last.json["messages"]
    assert seen[-1] == said[-1]
    lines = [line for message in seen[:-1] for line in message["content"].splitlines()]
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


async def knowing(on: Installation, *contents: str) -> Installation:
    """With nothing remembered but this, in that order."""
    await on.forget_everything()
    async with on.http() as http:
        for content in contents:
            (await http.post("/v1/memory", json={"content": content})).raise_for_status()
    return on


# -- by keywords -------------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def by_keywords(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    recall = {"strategy": "keywords", "max_keyword_memories": CAP}
    directory = tmp_path_factory.mktemp("keywords")
    async with installed(directory, model_directory, sidecar_config={"memory": {"recall": recall}}) as on:
        yield await knowing(on, *KNOWN)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("What's my BUDGET for the Hawaii trip?!", [HAWAII[0]]),
        ("Is my Hawaii visa valid", [HAWAII[6]]),
        ("Hawaii!", HAWAII[: -CAP - 1 : -1]),
        ("我的夏威夷旅行预算是多少？", [CHINESE]),
        ("What's my budget for the Bermuda trip?", []),
        ("Write a quicksort in Python", []),
    ],
)
async def test_all_memories_with_all_keywords_are_given_newest_first(
    by_keywords: Installation, asked: str, expected: list[str]
) -> None:
    assert await injected(by_keywords, asked) == expected


@pytest.mark.parametrize("asked", ["How much?", "What about that one?", "Hi!", "那个呢？", "", " "])
async def test_a_message_without_keywords_gets_the_newest_up_to_the_cap(by_keywords: Installation, asked: str) -> None:
    assert await injected(by_keywords, asked) == KNOWN[: -CAP - 1 : -1]


@pytest.mark.parametrize("asked", [HOTEL, "How much?"])
async def test_keywords_find_the_users_own_memories_alone(by_keywords: Installation, asked: str) -> None:
    assert await injected(by_keywords, asked, key=BOB) == []


async def test_what_was_deleted_is_found_by_no_keyword(by_keywords: Installation) -> None:
    stored = {"content": "User's umbrella is in the Hawaii bag"}
    async with by_keywords.http() as http:
        memory = (await http.post("/v1/memory", json=stored)).raise_for_status().json()
        assert await injected(by_keywords, "Where's my umbrella?") == [stored["content"]]
        (await http.delete(f"/v1/memory/{memory['id']}")).raise_for_status()
    assert await injected(by_keywords, "Where's my umbrella?") == []
    assert stored["content"] not in await injected(by_keywords, "How much?")


# -- with a model ------------------------------------------------------------------------------------------------------


def asking(llm: ExtractionLlm, **recall: Any) -> dict[str, Any]:
    """Settings of a sidecar that may ask this model about a query, and does again soon after a failure."""
    model = {"model_role": "memory_rewrite", "llm_endpoint": {"base_url": llm.url}, "llm_model_name": "helper"}
    return {
        "external_models": [model],
        "memory": {
            "recall": {"rewrite_deadline_ms": 2000, **recall},
            "retain": {"breaker_seconds": 0.2, "breaker_max_seconds": 0.5},
        },
    }


@pytest.fixture(scope="module")
def llm() -> ExtractionLlm:
    return ExtractionLlm()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def by_model(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, llm: ExtractionLlm
) -> AsyncIterator[Installation]:
    config = asking(llm, strategy="keywords", keyword_extraction="llm")
    directory = tmp_path_factory.mktemp("keywords-llm")
    async with installed(directory, model_directory, sidecar_config=config) as on:
        yield await knowing(on, *KNOWN)


def lists(llm: ExtractionLlm, *keywords: str) -> None:
    llm.works()
    llm.asked.clear()
    llm.says = json.dumps(keywords)


async def test_the_models_keywords_are_used_again_once_it_is_back(by_model: Installation, llm: ExtractionLlm) -> None:
    lists(llm, "Rex")
    assert await injected(by_model, PET) == []
    async with llm.listening():

        async def used() -> bool:
            return await injected(by_model, PET) == [DOG]

        await eventually(used, "the model's keywords were not used")
        assert PET in llm.asked[-1]
        lists(llm)
        assert await injected(by_model, HOTEL) == KNOWN[::-1]


@pytest.mark.parametrize("failure", [{"hangs": True}, {"status": 500}, {"says": "The user would like to go shopping."}])
async def test_a_model_that_does_not_list_keywords_leaves_it_to_the_rules(
    by_model: Installation, llm: ExtractionLlm, failure: dict[str, Any]
) -> None:
    lists(llm, "Rex")
    for name, value in failure.items():
        setattr(llm, name, value)
    async with llm.listening():
        assert await injected(by_model, HOTEL) == [HAWAII[2]]


async def test_a_model_that_is_not_there_leaves_it_to_the_rules(by_model: Installation) -> None:
    for _ in range(5):
        assert await injected(by_model, HOTEL) == [HAWAII[2]]


# -- a likely answer ---------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def by_answer(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, llm: ExtractionLlm
) -> AsyncIterator[Installation]:
    config = asking(llm, rewrite="hyde")
    directory = tmp_path_factory.mktemp("hyde")
    async with installed(directory, model_directory, sidecar_config=config) as on:
        yield await knowing(on, HAWAII[0], DOG, *OTHERS)


async def test_a_question_that_found_nothing_is_searched_for_by_a_likely_answer(
    by_answer: Installation, llm: ExtractionLlm
) -> None:
    lists(llm)
    llm.says = "User's dog, who waits at home, is called Rex"
    assert await injected(by_answer, EVENING) == []
    async with llm.listening():

        async def found() -> bool:
            return await injected(by_answer, EVENING) == [DOG]

        await eventually(found, "the likely answer found nothing")
        llm.asked.clear()
        assert await injected(by_answer, "What's my budget for the Hawaii trip?") == [HAWAII[0]]
        assert await injected(by_answer, "Write a quicksort in Python") == []
        assert llm.asked == []
