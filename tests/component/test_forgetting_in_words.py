"""What a message orders to forget is gone from then on, of this user alone, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.deletion.in_words import InWords
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import (
    FORM,
    Criteria,
    MemoryType,
    Message,
    RecallOptions,
    RecallRequest,
    Role,
    Scope,
    Steered,
    Steering,
    parse_filter,
)
from semrouter_memory.ports import Embedder
from tests.recalling import ALICE, Recalling, recalling

pytest_plugins = ("tests.model_fixture",)

BOB = Scope("bob")
BUDGET = "My budget for the Hawaii trip is $10,000"
FACTS = (
    *(BUDGET, "I'm allergic to peanuts", "I live in Berlin", "I work as a nurse at St Mary hospital"),
    *("My dog is called Rex", "I drive an old blue Volvo", "I pay 900 euros a month in rent"),
)
ORDER = "Forget what I told you about my budget for the Hawaii trip."


@pytest.fixture
async def known(embedder: Embedder) -> AsyncIterator[Recalling]:
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember(*FACTS)
        await made.remember(*FACTS, scope=BOB)
        yield made


@pytest.fixture
def steers(known: Recalling) -> InWords:
    return known.pipelines.steers


def said(text: str, *, scope: Scope = ALICE, **more: Any) -> RecallRequest:
    return RecallRequest(
        **{
            "scope": scope,
            "query": text,
            "options": RecallOptions(limit=5, threshold=0.6),
            "loop_key": text,
            "retained": True,
            **more,
        }
    )


async def contents(known: Recalling, scope: Scope = ALICE) -> set[str]:
    page = await known.adapters.store.page(Criteria(scope), limit=100)
    return {memory.content for memory in page.memories}


async def test_what_the_order_names_is_deleted_and_nothing_else(known: Recalling, steers: InWords) -> None:
    steered = await steers.obey(said(ORDER))
    assert steered is not None
    assert (steered.outcome, len(steered.forgotten)) == (Steering.FORGOTTEN, 1)
    assert await contents(known) == set(FACTS) - {BUDGET}
    assert await contents(known, BOB) == set(FACTS)
    assert BUDGET not in await known.given("What's my budget for the trip?")


async def test_a_request_that_is_sent_again_deletes_nothing_more(known: Recalling, steers: InWords) -> None:
    """Also while the first one is obeyed; without what it names, another memory would be the most relevant."""
    first, again = await asyncio.gather(steers.obey(said(ORDER)), steers.obey(said(ORDER)))
    left = await contents(known)
    assert first is not None
    assert (first.outcome, len(first.forgotten)) == (Steering.FORGOTTEN, 1)
    assert again in (first, Steered(Steering.NOT_FOUND))
    assert await steers.obey(said(ORDER)) == first, "the retry tells the model what is deleted"
    assert await contents(known) == left == set(FACTS) - {BUDGET}


async def test_the_order_is_obeyed_again_when_something_new_was_said(known: Recalling, steers: InWords) -> None:
    """In the same words in a new chat, and in one whose messages stay at the server: both look like a retry."""
    await steers.obey(said(ORDER))
    for count, amount in enumerate(("$12,000", "$15,000"), 2):
        new = f"My budget for the Hawaii trip is {amount}"
        known.clock.time += timedelta(minutes=1)
        await known.remember(new, created_at=known.clock.time)
        steered = await steers.obey(said(ORDER))
        assert steered is not None
        assert len(steered.forgotten) == count
        assert await contents(known) == set(FACTS) - {BUDGET}


@pytest.mark.parametrize(
    "more",
    [
        {"retained": False},
        {"continues_loop": True},
        {"options": RecallOptions(limit=5, threshold=0.6, unreadable=True)},
    ],
    ids=["storing is off", "a later step", "an unreadable setting"],
)
async def test_nothing_is_forgotten_where_nothing_may_change(
    known: Recalling, steers: InWords, more: dict[str, Any]
) -> None:
    assert await steers.obey(said(ORDER, **more)) is None
    assert await contents(known) == set(FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "What did I tell you about my budget?",
        "Don't forget my budget for the Hawaii trip!",
        "I forgot what my budget for the Hawaii trip is.",
        f'Translate: "{ORDER}"',
        f"> {ORDER}\n\nWhat does this mail want?",
        "别忘了我对花生过敏",
    ],
)
async def test_what_is_no_order_deletes_nothing(known: Recalling, steers: InWords, text: str) -> None:
    assert await steers.obey(said(text)) is None
    assert await contents(known) == set(FACTS)


@pytest.mark.parametrize(
    "left_out",
    [{"types": frozenset({MemoryType.PROCEDURAL})}, {"memory_filter": parse_filter("category=work")}],
    ids=["types", "filter"],
)
async def test_what_the_request_may_not_be_given_is_left(
    known: Recalling, steers: InWords, left_out: dict[str, Any]
) -> None:
    steered = await steers.obey(said(ORDER, options=RecallOptions(limit=5, threshold=0.6, **left_out)))
    assert steered is not None
    assert (steered.outcome, steered.forgotten) == (Steering.NOT_FOUND, ())
    assert await contents(known) == set(FACTS)


async def test_what_is_not_known_for_sure_is_left(known: Recalling, steers: InWords) -> None:
    steered = await steers.obey(said("Forget what I told you about my knee."))
    assert steered is not None
    assert (steered.outcome, steered.forgotten) == (Steering.NOT_FOUND, ())
    assert await contents(known) == set(FACTS)


async def test_a_sentence_does_not_delete_everything(known: Recalling, steers: InWords) -> None:
    steered = await steers.obey(said("Forget everything about me."))
    assert steered is not None
    assert (steered.outcome, steered.forgotten) == (Steering.REFUSED, ())
    assert await contents(known) == set(FACTS)


HISTORY = (Message(Role.USER, "Where do I live?"), Message(Role.ASSISTANT, "You told me: I live in Berlin."))


async def test_what_the_answer_stated_is_not_true_any_more(known: Recalling, steers: InWords) -> None:
    steered = await steers.obey(said("That's not true any more.", history=HISTORY))
    assert steered is not None
    assert steered.outcome is Steering.FORGOTTEN
    assert await contents(known) == set(FACTS) - {"I live in Berlin"}


@pytest.mark.parametrize(
    ("question", "answer", "gone"),
    [
        (
            "Where do I live?",
            "Based on what you've told me, you live in **Berlin**. Anything else?",
            "I live in Berlin",
        ),
        ("Do I live in Berlin?", "Yes, you live in Berlin.", "I live in Berlin"),
        ("What am I allergic to?", "You are allergic to peanuts.", "I'm allergic to peanuts"),
        ("What is my dog's name?", "Your dog's name is Rex.", "My dog is called Rex"),
        ("What car do I drive?", "An old blue Volvo.", "I drive an old blue Volvo"),
        ("What's my rent?", "You pay 900 euros a month in rent.", "I pay 900 euros a month in rent"),
    ],
)
async def test_the_answer_states_it_in_its_own_words(
    known: Recalling, steers: InWords, question: str, answer: str, gone: str
) -> None:
    history = (Message(Role.USER, question), Message(Role.ASSISTANT, answer))
    steered = await steers.obey(said("That's not true any more.", history=history))
    assert steered is not None
    assert steered.outcome is Steering.FORGOTTEN
    assert await contents(known) == set(FACTS) - {gone}
    assert await contents(known, BOB) == set(FACTS)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where do I live?", "You live in Paris."),
        ("Where do I live?", "You don't live in Berlin."),
        ("Where do I live?", "I don't know where you live."),
        ("What's my rent?", "You pay 800 euros a month in rent."),
        ("What am I allergic to?", "You have not told me of an allergy."),
        ("Suggest a snack", "How about peanuts?"),
    ],
)
async def test_an_answer_that_states_something_else_deletes_nothing(
    known: Recalling, steers: InWords, question: str, answer: str
) -> None:
    history = (Message(Role.USER, question), Message(Role.ASSISTANT, answer))
    assert await steers.obey(said("That's not true any more.", history=history)) is None
    assert await contents(known) == set(FACTS)


async def test_what_the_answer_did_not_state_stays(known: Recalling, steers: InWords) -> None:
    history = (HISTORY[0], Message(Role.ASSISTANT, "Paris is the capital of France."))
    assert await steers.obey(said("That's not true any more.", history=history)) is None
    assert await contents(known) == set(FACTS)


async def test_chinese(embedder: Embedder) -> None:
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember("我对花生过敏", "我住在成都", "我养了一只狗叫豆豆", "我每月房租三千")
        steers = made.pipelines.steers
        steered = await steers.obey(said("忘掉我跟你说过的花生过敏的事"))
        assert steered is not None
        assert await contents(made) == {"我住在成都", "我养了一只狗叫豆豆", "我每月房租三千"}
        history = (Message(Role.USER, "我住在哪里？"), Message(Role.ASSISTANT, "您住在成都。"))
        await steers.obey(said("这已经不是真的了", history=history))
        assert await contents(made) == {"我养了一只狗叫豆豆", "我每月房租三千"}


@pytest.mark.parametrize(
    ("facts", "order"),
    [
        (("我对花生过敏",), "忘掉我的工资"),
        (("我对花生过敏", "我住在奥斯陆"), "Forget what I told you about my salary"),
        (("我的夏威夷旅行预算是1万美元", "I am allergic to peanuts"), "忘掉关于我的预算的内容"),
        ((BUDGET, "I live in Lisbon and my dog is called Pixel"), "forget what I told you about my rent"),
        (("I drive a red Saab",), "forget what I told you about my favourite colour"),
        (("I work night shifts at the harbour", "I am vegan since 2019"), "forget what I told you about my boss"),
    ],
)
async def test_of_few_memories_an_order_deletes_no_other(
    embedder: Embedder, facts: tuple[str, ...], order: str
) -> None:
    """Each of them looks relevant."""
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember(*facts, metadata={FORM: "quote"})
        await made.pipelines.steers.obey(said(order))
        assert await contents(made) >= {each for each in facts if "预算" not in each}


@pytest.mark.parametrize(
    ("facts", "subject", "gone"),
    [
        (
            (
                "My flight to Lisbon leaves on June 3",
                "My flight to Porto leaves on June 9",
                "I'm at the Tivoli in Lisbon",
            ),
            "my flight to Porto",
            {"My flight to Porto leaves on June 9"},
        ),
        (
            ("I have a dog called Rex", "I have a cat called Miso", "Rex is allergic to chicken"),
            "Rex's allergy",
            {"Rex is allergic to chicken"},
        ),
        (
            ("My son Leo plays football", "My daughter Mia plays the violin", "Leo's school is Lincoln High"),
            "Leo’s school",
            {"Leo's school is Lincoln High"},
        ),
        (
            ("I went hiking in the Cascades and loved it", "Every Saturday I hike with my sister Nora", "I cook daily"),
            "hiking with Nora",
            {"Every Saturday I hike with my sister Nora"},
        ),
        (
            ("My budget for the Hawaii trip is $10,000", "I booked a hotel in Hawaii", "I work as a nurse"),
            "my trip to Hawaii",
            {"My budget for the Hawaii trip is $10,000", "I booked a hotel in Hawaii"},
        ),
    ],
)
async def test_of_few_memories_what_only_stands_near_the_subject_stays(
    embedder: Embedder, facts: tuple[str, ...], subject: str, gone: set[str]
) -> None:
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember(*facts, metadata={FORM: "quote"})
        await made.pipelines.steers.obey(said(f"Forget what I told you about {subject}."))
        assert set(facts) - await contents(made) == gone


LIFE = (
    *("I live at 12 Mill Road, York", "My salary is 31,000 before tax", "My sister Ana is getting divorced"),
    *("My dentist is Dr. Lowe", "My immigration hearing is on 9 September", "Tom and I share a flat"),
    *("I'm allergic to penicillin", "My dog Biscuit is a beagle", "I work in the bakery of a supermarket"),
)


@pytest.mark.parametrize(
    ("order", "gone"),
    [
        ("Forget my address and my salary.", {LIFE[0], LIFE[1]}),
        ("please delete my dentist, my dog and what I told you about my sister's divorce", {LIFE[2], LIFE[3], LIFE[7]}),
        ("Forget where I live as well as where I work", {LIFE[0], LIFE[8]}),
        ("Forget my dog. Also forget my sister's divorce.", {LIFE[7], LIFE[2]}),
        ("Forget my dinner with Leo and Tom", set()),
        ("Forget my hearing test", set()),
        ("Forget my sister's wedding", set()),
        ("delete the paragraph on penicillin and the one on allergies", set()),
    ],
)
async def test_an_order_about_several_things_or_about_nothing_known(
    embedder: Embedder, order: str, gone: set[str]
) -> None:
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember(*LIFE, metadata={FORM: "quote"})
        await made.pipelines.steers.obey(said(order))
        assert set(LIFE) - await contents(made) == gone


async def test_of_few_memories_one_that_is_meant_in_other_words_is_deleted(embedder: Embedder) -> None:
    async with recalling(embedder, forget_deadline_ms=10_000) as made:
        await made.remember("We are trying for a baby", "I owe my brother 2,000 euros", metadata={FORM: "quote"})
        await made.pipelines.steers.obey(said("forget what I told you about my debts"))
        assert await contents(made) == {"We are trying for a baby"}


async def test_an_unavailable_store_fails_no_request(
    known: Recalling, monkeypatch: pytest.MonkeyPatch, steers: InWords
) -> None:
    async def unavailable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("down")

    with monkeypatch.context() as down:
        down.setattr(known.adapters.store, "search_index", unavailable)
        steered = await steers.obey(said(ORDER))
    assert steered is not None
    assert (steered.outcome, steered.forgotten) == (Steering.FAILED, ())
    assert await contents(known) == set(FACTS)
    again = await steers.obey(said(ORDER))
    assert again is not None
    assert again.outcome is Steering.FORGOTTEN
