"""Plain questions, in the words in which anybody would ask them, find what they ask for; plain ones of another kind find nothing.

Strategy: the labelled requests that the decisions are fitted on are varied on purpose, and so a fit may forget the most common ones.
"""

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from semrouter_memory.model import Scope
from semrouter_memory.ports import Embedder
from tests.recalling import recalling

pytest_plugins = ("tests.model_fixture",)

ASKED = (
    ("User's favourite zebra is called Marty", "What's my favourite zebra called?"),
    ("User's dog is called Rex", "what's my dog called"),
    ("User's sister is Ana", "what is my sister's name"),
    ("User's birthday is 3 May", "when is my birthday?"),
    ("User drives a Skoda Octavia", "what car do i drive"),
    ("User's blood type is A+", "What is my blood type?"),
    ("User's wifi is called Hedgehog", "What's my wifi called"),
    ("User's favourite colour is teal", "what is my favorite color?"),
    ("User works at Northwind as an accountant", "where do I work?"),
    ("User is allergic to peanuts", "what am I allergic to?"),
    ("User's boss is Marta", "who is my boss"),
    ("User lives in Porto", "which city do i live in"),
    ("User's son Tom is 7", "how old is my son?"),
    ("User's wife is called Julia", "what's my wife's name?"),
    ("User's shoe size is 43", "What shoe size do I wear?"),
    ("User supports Everton", "which football team do I support"),
    ("User's flight to Oslo leaves on 12 June at 7:40", "when does my flight leave?"),
    ("User's budget for the kitchen is 8,000 euros", "what's my budget for the kitchen?"),
    ("User prefers window seats", "do I prefer window or aisle seats?"),
    ("User's favourite band is Low", "whats my favourite band"),
    ("User studies marine biology in Bergen", "what do I study?"),
    ("User's landlord is Mr Petrov", "what is the name of my landlord"),
    ("User pays 950 a month for rent", "how much rent do i pay"),
    ("User takes 20 mg of citalopram in the morning", "what medication do I take?"),
    ("User's license plate is OX-17-KL", "what's my license plate number"),
    ("User's cat is a Maine Coon", "what breed is my cat?"),
    ("User's dentist is Dr Amsel", "who's my dentist"),
    ("User's project is called Bluebird", "what is my project called?"),
    ("User's deadline for the thesis is 1 September", "when is my thesis due?"),
    ("User's team uses PostgreSQL 15", "which database does my team use"),
    ("User has two daughters, Ida and Mia", "what are my daughters' names?"),
    ("User is vegetarian", "am I vegetarian or vegan?"),
    ("User's gym is closed on Sundays", "is my gym open on sundays"),
    ("User graduated in 2012", "what year did I graduate?"),
    ("User's favourite book is Stoner", "what's my favorite book"),
    ("User's height is 182 cm", "how tall am I"),
    ("User's hourly rate is 68 euros", "what is my hourly rate?"),
    ("User's piano lesson is on Thursdays at five", "what time is my piano lesson"),
    ("User speaks Dutch and Italian", "which languages do I speak?"),
    ("User's car insurance is with Aviva", "who is my car insurance with?"),
    ("User's laptop is a ThinkPad X1", "what laptop do i have"),
    ("User's mother lives in Graz", "where does my mother live?"),
    ("User's favourite pizza is quattro formaggi", "what pizza do I like best?"),
    ("User was born in Tartu", "where was I born"),
    ("User's anniversary is on 9 October", "when is my wedding anniversary?"),
    ("User weighs 71 kg", "how much do I weigh?"),
    ("User's plumber is called Otto", "what was my plumber's name again?"),
    ("User's kids go to Linden school", "what school do my kids go to"),
    ("User drinks oat milk", "what kind of milk do I drink?"),
    ("User is saving for a sailing boat", "what am I saving for"),
)
ASKED_IN_CHINESE = (
    ("物业费一个月三百六", "物业费多少"),
    ("孩子的班主任姓孙", "班主任姓什么"),
    ("车险在太保买的", "车险在哪买的"),
    ("租期到明年八月", "租期到什么时候"),
    ("健身教练叫大鹏", "教练叫什么名字"),
    ("养了一只乌龟,叫闪电", "乌龟叫什么"),
    ("隻貓十二歲喇", "隻貓幾多歲"),
    ("奶奶住在三亚", "奶奶住哪"),
    ("婚礼定在十月六号", "婚礼是哪天"),
    ("宽带是移动的，五百兆", "宽带多少兆"),
)
NOT_ASKED_IN_CHINESE = (
    "黄山门票多少钱",
    "相对论是谁提出的",
    "水在多少度结冰",
    "写一句关于雨天的诗",
    "把“早安”翻译成法语",
    "光的速度是多少",
    "谢谢啦",
    "端午节吃什么",
)
NOT_ASKED = (
    "what is the capital of norway",
    "how old is the universe",
    "what's the tallest mountain in africa",
    "who wrote moby dick",
    "what is a mortgage",
    "how do vaccines work",
    "what is the weather usually like in oslo in june",
    "what time is it in tokyo",
    "what does a plumber do",
    "which football team won the champions league in 2005",
    "how tall is the eiffel tower",
    "what's the difference between a crocodile and an alligator",
    "who invented the piano",
    "what breed of dog is lassie",
    "hi",
    "thanks!",
    "tell me a joke",
    "what is 15% of 80",
    "translate good morning into french",
    "write a haiku about autumn",
    "how many days are in february",
    "what color is the sky on mars",
    "who is the president of france",
    "what are symptoms of flu",
    "what year did world war 2 end",
    "what language do they speak in brazil",
    "is the earth round",
    "how much does an elephant weigh",
    "when is easter this year",
)
_FACTS_OF_ONE = 10
PAGE = """
The village hall reopened on Saturday after two years of works. The roof, which had leaked since the storm, was replaced, and the kitchen has
a new stove and a dishwasher. The council paid for half of it; the rest was collected at dinners, raffles and a concert of the school's choir.

"I did not think that I would see it again," said a neighbour, who has lived opposite for forty years and keeps the key. "My daughter was
married in here, and our club met every Thursday." The hall may be rented for parties, at 90 a day for residents and 150 for others. Dogs
are welcome in the garden, not inside. Bookings are taken by phone on weekday mornings, and the first free weekend is in October.

The mayor thanked the volunteers, of whom she named the plumber, the two carpenters and the woman who sewed the curtains. She
announced that the car park would be next, and that the road to the station, which floods each winter, would be raised in spring.
"""
TASKS = (
    "Summarise this in three sentences:",
    "Fix the punctuation:",
    "Give me five keywords for this text:",
    "Translate this into Spanish:",
)


async def given(embedder: Embedder, request: Callable[[str], str]) -> AsyncIterator[tuple[str, str, Sequence[str]]]:
    """Each plain question with its fact, and what is given for such a request with it; ten facts a user."""
    async with recalling(embedder) as known:
        for start in range(0, len(ASKED), _FACTS_OF_ONE):
            scope, asked = Scope(f"user-{start}"), ASKED[start : start + _FACTS_OF_ONE]
            await known.remember(*(fact for fact, _ in asked), scope=scope)
            for fact, question in asked:
                yield question, fact, await known.given(request(question), scope=scope)


async def missed(embedder: Embedder, request: Callable[[str], str]) -> list[str]:
    return [question async for question, fact, found in given(embedder, request) if fact not in found]


async def test_plain_questions_find_what_they_ask_for(embedder: Embedder) -> None:
    assert not await missed(embedder, lambda question: question)


async def test_plain_chinese_questions_that_leave_the_person_out_find_what_they_ask_for(embedder: Embedder) -> None:
    async with recalling(embedder) as known:
        scope = Scope("user-zh")
        await known.remember(*(fact for fact, _ in ASKED_IN_CHINESE), scope=scope)
        missed = [asked for fact, asked in ASKED_IN_CHINESE if fact not in await known.given(asked, scope=scope)]
        needless = [asked for asked in NOT_ASKED_IN_CHINESE if await known.given(asked, scope=scope)]
    assert (missed, needless) == ([], [])


async def test_courtesies_around_plain_questions_make_no_difference(embedder: Embedder) -> None:
    assert not await missed(
        embedder,
        lambda question: f"Hello, hope you are well. {question.rstrip('?')}? Thank you so much for your help!",
    )


async def test_plain_questions_behind_pasted_pages_find_what_they_ask_for(embedder: Embedder) -> None:
    lost = await missed(embedder, lambda question: f"{PAGE * 4}\n\n{question}")
    assert len(lost) <= len(ASKED) // 10, lost


@pytest.mark.parametrize(
    "frame",
    [
        "Current date: Friday, November 28, 2026\nUser timezone: Europe/Oslo\n\n{}",
        "You are chatting on mobile. The current time is 08:14.\n\n{}",
        "<task>\n{}\n</task>\n\n<environment_details>\n# Current Time\n9:12:04 AM\n</environment_details>",
    ],
)
async def test_a_clients_frame_around_plain_questions_makes_no_difference(embedder: Embedder, frame: str) -> None:
    assert not await missed(embedder, frame.format)


async def test_a_task_about_a_conversation_finds_nothing(embedder: Embedder) -> None:
    """Chat clients ask the same model for titles."""

    def title(question: str) -> str:
        return f"Provide a title of five words or less.\n\nConversation:\nUser: {question}\nAI: Let me see."

    assert not [question async for question, _, found in given(embedder, title) if found]


async def test_tasks_about_a_pasted_page_find_nothing(embedder: Embedder) -> None:
    async with recalling(embedder) as known:
        await known.remember(*(fact for fact, _ in ASKED[:_FACTS_OF_ONE]))
        found = [task for task in TASKS for text in (f"{task}\n{PAGE}", f"{PAGE}\n{task}") if await known.given(text)]
    assert not found


async def test_plain_requests_of_another_kind_find_nothing(embedder: Embedder) -> None:
    async with recalling(embedder) as known:
        await known.remember(*(fact for fact, _ in ASKED[:_FACTS_OF_ONE]))
        found = [request for request in NOT_ASKED if await known.given(request)]
    assert not found
