"""Recall with the real model, the real turn log and the store in memory, at the default settings."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import (
    FORM,
    WITHIN,
    MemoryType,
    Message,
    OtherOwner,
    OwnerKind,
    Reach,
    Reason,
    Role,
    Scope,
    Tombstone,
)
from semrouter_memory.ports import Embedder
from tests.recalling import ALICE, NOW, Recalling, recalling

pytest_plugins = ("tests.model_fixture",)

BOB = Scope("bob")
ACME = Scope("acme", kind=OwnerKind.ORGANISATION)
BUDGET = "User's budget for the Hawaii trip is $10,000"
PEANUTS = "User is allergic to peanuts"
SHORT = "User prefers short answers without bullet points"
DEPLOY = "To deploy payment-service: run npm build, then docker push"
FACTS = (
    BUDGET,
    PEANUTS,
    "User lives in Berlin",
    "User's name is Alice",
    "User works as a nurse at St Mary hospital",
    SHORT,
    "User's dog is called Rex",
    "User's sister is getting married in June",
    "User drives an old blue Volvo",
    "User is learning Spanish",
    DEPLOY,
    "User pays 900 euros a month in rent",
    "User goes climbing on Tuesdays",
)
HAWAII = "User's budget for Hawaii is $10,000"
MORE_FACTS = (
    *("User's brother Tom lives in Leeds", "User's landlord is Mr Okafor", "User plays the cello in an orchestra"),
    *("User's car is due for inspection in April", "User reads crime novels before bed", "User is afraid of heights"),
    *("User has a library card", "User's mother is a retired teacher", "User grew up in a small village in Wales"),
    *("User's favourite colour is green", "User collects stamps from Iceland", "User's bank is the Sparkasse"),
    *("User's phone is an old Nokia", "User volunteers at the animal shelter on Sundays", "User owns two kayaks"),
    *("User's wedding anniversary is on 4 August", "User finished a degree in history", "User has three nephews"),
    *("User dislikes horror films", "User's neighbour waters the plants in summer", "User's shoe size is 42"),
    *("User's bicycle was stolen last autumn", "User swims twice a week", "User sings in a choir on Thursdays"),
    "User's passport expires in 2029",
    "User repairs old radios",
    "User's grandmother came from Norway",
)
GENERAL = (
    "write a quicksort in Python",
    "What is the boiling point of water?",
    "How do I reverse a list in Python?",
    "Who wrote Don Quixote?",
    "How many moons does Jupiter have?",
    "法国的首都是哪里？",
)


@pytest.fixture(params=[True, False], ids=["at hand", "in the store"])
async def empty(request: pytest.FixtureRequest, embedder: Embedder) -> AsyncIterator[Recalling]:
    async with recalling(embedder, at_hand=request.param) as made:
        yield made


@pytest.fixture
async def known(empty: Recalling) -> Recalling:
    """Alice's memory holds the facts."""
    await empty.remember(*FACTS)
    return empty


CHINESE = (
    *(
        "我住在上海",
        "我老婆是小学老师",
        "我不吃辣",
        "我开一辆白色的大众",
        "我最近在读《三体》",
        "我的航班是周三下午两点",
    ),
    *("我患有高血压", "我每天早上六点跑步", "我女儿今年五岁", "我的预算是五千块", "我妈妈喜欢唱歌", "我明年打算结婚"),
    *("我们的项目用的是PostgreSQL数据库", "我的鞋码是四十二", "我戒烟三年了", "我最喜欢的颜色是蓝色"),
)


# -- what was asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What's my budget for the trip?", BUDGET),
        ("How much can I spend in Hawaii?", BUDGET),
        ("Am I allergic to anything?", PEANUTS),
        ("Where do I live?", "User lives in Berlin"),
        ("What's my name?", "User's name is Alice"),
        ("How do I deploy payment-service?", DEPLOY),
    ],
)
async def test_what_the_user_once_said_is_found_at_the_default_settings(
    known: Recalling, query: str, wanted: str
) -> None:
    result = await known.ask(query)

    assert result.reason is Reason.INJECTED
    assert result.hits[0].memory.content == wanted
    assert f"- {wanted}\n" in result.text


@pytest.mark.parametrize("others", [(), (*MORE_FACTS, *FACTS[1:])], ids=["the only one", "one of forty"])
async def test_the_designs_own_example_is_found(empty: Recalling, others: tuple[str, ...]) -> None:
    await empty.remember(*others[:20], HAWAII, *others[20:])
    assert len(others) in (0, 39)

    assert (await empty.given("What's my budget for the trip?"))[0] == HAWAII


async def test_what_holds_within_a_session_is_recalled_in_it_alone(known: Recalling) -> None:
    within = {FORM: "statement", WITHIN: {"session": "s1", "promote": True}}
    await known.remember("The draft of the report is in folder Osprey", metadata=within)
    asks = "Where is the draft of the report?"
    assert "folder Osprey" in (await known.ask(asks, session="s1")).text
    for other in ("", "s2", "S1", "s1 ", "s1\x00", "ѕ1"):
        assert "Osprey" not in (await known.ask(asks, session=other)).text
    assert "Osprey" not in (await known.ask(asks, session="s1", scope=BOB)).text
    assert BUDGET in await known.given("What's my budget for the trip?", session="s1")


async def test_a_vague_question_is_understood_from_the_conversation(known: Recalling) -> None:
    await known.remember(*MORE_FACTS)
    history = [
        Message(Role.USER, "Planning Hawaii vacation"),
        Message(Role.ASSISTANT, "Sounds great!"),
        Message(Role.USER, "Looking at hotels"),
        Message(Role.ASSISTANT, "On which island?"),
    ]

    assert (await known.given("How much?", history))[0] == BUDGET
    assert await known.given("How much?") == []


# -- what was not ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", GENERAL)
async def test_a_question_of_general_knowledge_gets_nothing_personal(known: Recalling, query: str) -> None:
    """How the user wants to be answered is all that may come with it."""
    assert set(await known.given(query)) <= {SHORT}


@pytest.mark.parametrize("query", GENERAL)
async def test_of_a_user_with_nothing_to_say_on_answers_it_gets_nothing(empty: Recalling, query: str) -> None:
    await empty.remember(*MORE_FACTS)

    assert (await empty.ask(query)).reason is Reason.BELOW_THRESHOLD


@pytest.mark.parametrize("query", ["Translate 'good night' into French", "Write a short poem about the sea"])
async def test_a_text_to_write_gets_the_name_and_how_to_answer_at_most(known: Recalling, query: str) -> None:
    assert set(await known.given(query)) <= {SHORT, "User's name is Alice"}


PEOPLE = (
    "my cousin Ottilie runs the bakery on Mill Lane",
    "Grigore from accounts sends my invoices back every time",
    "User's physiotherapist is Menna Vaughan",
)


@pytest.mark.parametrize("query", ["Who is Ottilie?", "who's Grigore", "Who is Menna Vaughan?"])
async def test_who_somebody_is_whom_memories_name_is_not_general_knowledge(empty: Recalling, query: str) -> None:
    await empty.remember(*PEOPLE)
    name = query.removesuffix("?").split()[-1]
    assert name in (await empty.ask(query)).text


@pytest.mark.parametrize(
    "query", ["Who is Margaret Atwood?", "Who was Ottilie von Goethe?", "who's the king of Norway"]
)
async def test_who_somebody_else_is_gets_nothing_personal(empty: Recalling, query: str) -> None:
    await empty.remember(*PEOPLE)
    assert not (await empty.ask(query)).text


async def test_another_user_gets_nothing(known: Recalling) -> None:
    assert (await known.ask("What's my budget for the trip?", scope=BOB)).reason is Reason.NO_MEMORIES


async def test_what_says_nearly_the_same_is_given_once(empty: Recalling) -> None:
    same = [BUDGET, "The user's budget for the Hawaii trip: $10,000", "User has a budget for the Hawaii trip of $10K"]
    await empty.remember(*same, "User flies to Hawaii on 3 May")
    given = await empty.given("What's my budget for the Hawaii trip?")

    assert len(set(given) & set(same)) == 1


async def test_a_statement_and_its_contrary_are_both_given(empty: Recalling) -> None:
    """Which of them holds is not for the ranking to say."""
    await empty.remember("User eats meat", "User doesn't eat meat")

    assert len(await empty.given("Do I eat meat?")) == 2


# -- what matters unasked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["Suggest a dinner for tonight", "What snack should I bake for the party?"])
async def test_an_allergy_is_given_with_a_request_for_food(known: Recalling, query: str) -> None:
    assert PEANUTS in await known.given(query)


@pytest.mark.parametrize(
    "query", ["Write a Python function that reverses a list", "Why does my loop never end?", "Draft an email to Bob"]
)
async def test_an_allergy_is_not_given_with_a_request_for_something_else(known: Recalling, query: str) -> None:
    assert PEANUTS not in await known.given(query)


@pytest.mark.parametrize("query", ["Explain how tides work", "Write a Python function that reverses a list"])
async def test_how_to_answer_is_given_with_what_is_explained_or_programmed(known: Recalling, query: str) -> None:
    result = await known.ask(query)

    assert [hit.memory.content for hit in result.hits] == [SHORT]
    assert result.reason is Reason.INJECTED


@pytest.mark.parametrize(("tokens", "reason"), [(0, Reason.BELOW_THRESHOLD), (5, Reason.OVER_BUDGET)])
async def test_what_is_given_unasked_keeps_within_its_own_budget(
    embedder: Embedder, tokens: int, reason: Reason
) -> None:
    async with recalling(embedder, pinned_tokens=tokens) as made:
        await made.remember(*FACTS)

        assert (await made.ask("Explain how tides work")).reason is reason
        assert SHORT in await made.given("How do I want my answers to be, short or long?")


# -- what was written, changed and deleted -----------------------------------------------------------------------------


async def test_what_was_deleted_is_not_shown_while_the_store_still_has_it(known: Recalling) -> None:
    (hit, *_) = (await known.ask("What's my budget for the trip?")).hits
    tombstone = Tombstone(scope=ALICE, at=NOW, memory_id=hit.memory.id, reach=Reach.EXACT)
    await known.adapters.turn_log.tombstone(tombstone)

    assert BUDGET not in await known.given("What's my budget for the trip?")


async def test_a_memory_that_a_user_deletes_is_gone_at_the_next_question(known: Recalling) -> None:
    (hit, *_) = (await known.ask("What's my budget for the trip?")).hits
    await known.service().forget(ALICE, hit.memory.id)

    assert BUDGET not in await known.given("What's my budget for the trip?")
    assert (await known.given("Where do I live?"))[0] == "User lives in Berlin"


async def test_after_all_was_deleted_nothing_is_given(known: Recalling) -> None:
    assert await known.given("Where do I live?")
    assert await known.service().forget_all(ALICE, Reach.ALL) == len(FACTS)

    assert (await known.ask("Where do I live?")).reason is Reason.NO_MEMORIES
    await known.say("User lives in Oslo")
    assert await known.given("Where do I live?") == ["User lives in Oslo"]


async def test_what_is_written_changes_the_very_next_answer(known: Recalling) -> None:
    """The old value is not given any more, be the memories at hand or not."""
    await known.say("User's flight to Hawaii leaves at 9 am")
    assert (await known.given("When does my flight to Hawaii leave?"))[0] == "User's flight to Hawaii leaves at 9 am"
    await known.say("User's flight to Hawaii leaves at 11 am")
    given = await known.given("When does my flight to Hawaii leave?")

    assert given[0] == "User's flight to Hawaii leaves at 11 am"
    assert "User's flight to Hawaii leaves at 9 am" not in given


async def test_what_the_user_pinned_is_given_whatever_is_asked(empty: Recalling) -> None:
    await empty.remember(*FACTS, *MORE_FACTS)
    (volvo,) = (each for each in FACTS if "Volvo" in each)
    stored = await empty.service().store(ALICE, StoreRequest(content=volvo))
    queries = ("What is the boiling point of water?", "write a quicksort in Python", "Where do I live?")
    for query in queries:
        assert volvo not in await empty.given(query)
    await empty.service().update(ALICE, stored.id, UpdateRequest(pinned=True))
    for query in queries:
        assert (await empty.given(query))[0] == volvo
    assert "User lives in Berlin" in await empty.given("Where do I live?")
    assert await empty.given("What is the boiling point of water?", scope=BOB) == []
    await empty.service().update(ALICE, stored.id, UpdateRequest(pinned=False))
    assert volvo not in await empty.given("Where do I live?")


async def test_what_is_pinned_of_an_organisation_is_given_to_every_request_that_carries_it(empty: Recalling) -> None:
    await empty.remember(*FACTS)
    await empty.remember(*MORE_FACTS, scope=ACME)
    policy = "Bring the red folder to every audit"
    await empty.service().store(ACME, StoreRequest(content=policy, pinned=True))
    others = (OtherOwner(ACME, 3, 0.4),)
    for query in ("What is the boiling point of water?", "Where do I live?"):
        assert (await empty.given(query, others=others))[0] == policy
        assert policy not in await empty.given(query)
        assert policy not in await empty.given(query, others=others, pinned_tokens=0)


@pytest.mark.parametrize("strategy", ["keywords", "semantic"])
async def test_every_strategy_gives_what_is_pinned(embedder: Embedder, strategy: str) -> None:
    async with recalling(embedder, strategy=strategy) as made:
        await made.remember(*FACTS)
        await made.service().store(ALICE, StoreRequest(content="User keeps two old kayaks", pinned=True))
        assert "User keeps two old kayaks" in await made.given("Where do I live? In Berlin?")


async def test_a_long_memory_that_is_pinned_is_given_once(empty: Recalling) -> None:
    text = " ".join(f"User planted {number} trees near house {number} in the valley." for number in range(60))
    await empty.service().store(ALICE, StoreRequest(content=text, pinned=True))
    result = await empty.ask("What is the boiling point of water?")
    assert len(result.hits) == 1
    assert result.hits[0].memory.passage


OVERVIEWS = ("What do you know about me?", "Where did we leave off?", "你还记得我的什么？")


@pytest.mark.parametrize("query", OVERVIEWS)
async def test_who_asks_for_all_is_given_what_is_pinned_and_the_newest(empty: Recalling, query: str) -> None:
    await empty.remember(*MORE_FACTS, *FACTS)
    await empty.remember(*(f"Shelf {number} in the mill holds tins" for number in range(20)), scope=ACME)
    pinned = await empty.service().store(ALICE, StoreRequest(content="User keeps two old kayaks", pinned=True))
    newest = [*reversed(FACTS), *reversed(MORE_FACTS)]

    given = await empty.given(query, others=(OtherOwner(ACME, 3, 0.4),))

    assert given[0] == pinned.content
    assert len(given) > empty.config.default_retrieval_limit
    assert given[1:] == newest[: len(given) - 1]
    assert (await empty.ask(query)).tokens <= empty.config.recall.token_budget
    assert await empty.given(query, scope=BOB) == []
    # A smaller number that the request asks for holds here, too.
    assert await empty.given(query, limit=3, overview_limit=None) == given[:3]
    procedural = frozenset({MemoryType.PROCEDURAL})
    assert await empty.given(query, types=procedural) == [DEPLOY]


async def test_who_asks_for_all_of_a_day_is_given_that_days(empty: Recalling) -> None:
    await empty.remember(*FACTS, created_at=NOW - timedelta(days=9))
    yesterday = NOW - timedelta(days=1)
    await empty.remember("User planted two pear trees", "User sold the piano", created_at=yesterday)

    for query in ("What did we talk about yesterday?", "what did I tell you yesterday?"):
        assert await empty.given(query) == ["User sold the piano", "User planted two pear trees"]
    nothing = await empty.ask("What did we talk about on 2 March?")
    assert (nothing.text, nothing.reason) == ("", Reason.BELOW_THRESHOLD)


async def test_a_long_memory_is_given_once_at_most_to_who_asks_for_all(empty: Recalling) -> None:
    text = " ".join(f"User planted {number} trees near house {number} in the valley." for number in range(60))
    await empty.remember(BUDGET)
    await empty.service().store(ALICE, StoreRequest(content=text))
    given = await empty.given("What do you know about me?")
    assert BUDGET in given
    assert len(given) <= 2


async def test_while_remembering_is_paused_nothing_is_given(known: Recalling) -> None:
    await known.adapters.turn_log.set_paused(ALICE, paused=True)

    for query in ("Where do I live?", "What is the boiling point of water?"):
        result = await known.ask(query)
        assert (result.reason, result.text, result.hits, result.ranking) == (Reason.PAUSED, "", (), ())
    await known.adapters.turn_log.set_paused(ALICE, paused=False)
    assert await known.given("Where do I live?") == ["User lives in Berlin"]


# -- Chinese -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("我住在哪个城市？", "上海"),
        ("我妻子做什么工作？", "小学老师"),
        ("我的口味怎么样？", "不吃辣"),
        ("我的车是什么牌子？", "大众"),
        ("我在看什么书？", "三体"),
        ("我的飞机几点起飞？", "两点"),
        ("我有什么慢性病？", "高血压"),
        ("我什么时候结婚？", "明年"),
        ("我们项目用什么数据库？", "PostgreSQL"),
    ],
)
async def test_a_chinese_question_finds_what_was_said_in_other_words(empty: Recalling, query: str, wanted: str) -> None:
    await empty.remember(*CHINESE, metadata={FORM: "quote"})
    assert any(wanted in given for given in await empty.given(query))


async def test_a_long_memory_of_a_session_is_found_in_it_and_everywhere_once_promoted(empty: Recalling) -> None:
    """Its passages are recalled where it is."""
    told = " ".join(f"Point {number} of the agenda takes {number} minutes." for number in range(2, 60))
    content = f"{told} The key of the archive is under the blue flowerpot."
    noted = await empty.service().store(ALICE, StoreRequest(content=content, within_session="s1", promote=True))
    asks = "Where is the key of the archive?"
    assert "blue flowerpot" in (await empty.ask(asks, session="s1")).text
    assert "blue flowerpot" not in (await empty.ask(asks, session="s2")).text
    writer = empty.pipelines.reconciling_writer()
    await writer.settle(ALICE, [noted])
    assert "blue flowerpot" in (await empty.ask(asks)).text
    await writer.settle(ALICE, [noted])
    assert (await empty.service().get(ALICE, noted.id)).content == content


# -- settings of a route -----------------------------------------------------------------------------------------------


async def test_a_request_may_be_answered_with_another_strategy_than_the_configured_one(known: Recalling) -> None:
    """Each finds what the others do not: the words, the meaning, or what the request needs without asking."""
    by_words = [BUDGET]
    assert await known.given("Hawaii budget", strategy="keywords") == by_words
    assert await known.given("Suggest a restaurant", strategy="keywords") == []
    assert PEANUTS in await known.given("Suggest a restaurant", strategy="hybrid")
    assert PEANUTS not in await known.given("Suggest a restaurant", strategy="semantic")
    assert PEANUTS in await known.given("Suggest a restaurant"), "hybrid is configured"


async def test_a_request_may_do_without_what_is_pinned(known: Recalling) -> None:
    asked = "Explain how tides work"
    assert SHORT in await known.given(asked)
    result = await known.ask(asked, pinned_tokens=0)
    assert (result.hits, result.reason) == ((), Reason.BELOW_THRESHOLD)
