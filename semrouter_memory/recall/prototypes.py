"""Prototype sentences that a request and its similarities are measured against.

Strategy: a cosine means little by itself. How near a request is to questions of general knowledge, to small talk and to
questions about oneself says whether it needs memories at all; and how near it is to a few dozen everyday statements says
what a cosine of nothing in particular is for that request. They are embedded once, with whatever model is configured.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.model import Vector
from semrouter_memory.ports import Embedder

_GENERAL = (
    *("What is the capital of Mongolia?", "Explain how photosynthesis works", "Who invented the telephone?"),
    *("What is the difference between a virus and a bacterium?", "How many ounces are in a pound?"),
    *("What does 'ad hoc' mean?", "Why is the sky blue?", "Who won the world cup in 1998?"),
    *("Convert 10 miles to kilometers", "What is the derivative of x squared?", "Solve 3x + 5 = 20"),
    *("How do airplanes fly?", "When did the second world war end?", "What is a binary search tree?"),
    *("How do I reverse a list in Python?", "Give me synonyms of happy", "What is the plural of octopus?"),
    *("Define inflation in economics", "Is a tomato a fruit?", "What causes earthquakes?"),
    *("How long does it take to boil an egg?", "What is the boiling point of water?"),
    *("Translate 'good night' into Italian", "Summarize the plot of Hamlet"),
    *("What does this error message mean?", "How does a transistor work?"),
    *("中国有多少个省？", "什么是相对论？", "光合作用的原理是什么？"),
)
_CHAT = (
    *("Good morning! How are you today?", "Thanks, that was helpful", "Haha that's funny", "I'm so tired today"),
    *("Have a nice weekend!", "Tell me a joke", "Never mind, I found it", "Write a poem about the sea"),
    *("Write a haiku about autumn", "Nice weather today", "That was great, good night", "Roll a dice for me"),
    *("Tell me a fun fact", "谢谢，先这样吧", "今天天气真好", "给我讲个笑话"),
)
_ASKING = (
    *("What is my budget for the trip?", "Where do I live?", "What's the name of my dog?"),
    *("When is my appointment?", "What did I say about the project?", "Who is my dentist?"),
    *("How do I usually deploy the service?", "Which car do I drive?", "What did we decide last time?"),
    *("How much do I pay for rent?", "What are my steps for the backup?", "Do I have any allergies?"),
    *("When did I last go there?", "What is our plan for the party?"),
    *("我住在哪里？", "我的预算是多少？", "我上次什么时候去的？"),
)
_REQUESTS = (
    *("What should I cook for dinner tonight?", "Suggest a restaurant for lunch", "Make a meal plan for this week"),
    *("Ideas for a birthday cake", "What snack can I have?", "Make me a workout plan"),
    *("I have a headache, what can I take?", "Give me a training plan for a marathon"),
    *("My back hurts, what should I do?", "Suggest an activity for the weekend", "Plan a trip to Italy"),
    *("Find me a flight to Tokyo", "Which hotel should we book?", "What should I pack for my holiday?"),
    *("Find a time for a meeting next week", "Plan my week", "Which day is best for lunch?"),
    *("Should I accept an invitation on Thursday evening?", "Propose three slots for a call"),
    *("Write a script that renames files", "Write unit tests for this function", "Add logging to this function"),
    *("How should I structure this project?", "Draft an email to my boss", "Write a letter to the landlord"),
    *("Write a caption for this photo", "Prepare a presentation for Thursday", "Write a message to the team"),
    *("What should I give her for her birthday?", "Gift ideas for my dad", "Plan a surprise for our anniversary"),
    *("Which laptop should I buy?", "Recommend a new phone", "Can I afford a new car?"),
    *("晚饭做什么好？", "推荐一家餐厅", "帮我规划一次旅行", "帮我安排一下周末", "帮我写一封邮件", "送什么生日礼物好？"),
)
_BACKGROUND = (
    *("User lives in a large city", "User works as a teacher", "User has two children"),
    *("User's budget for the trip is $2,000", "User prefers dark mode", "User is allergic to peanuts"),
    *("User's dog is called Rex", "User plays the guitar", "User's birthday is on 12 May"),
    *("User drives an old car", "User is learning Spanish", "User goes to the gym on Mondays"),
    *("User's wife is called Anna", "User's rent is 900 a month", "User works with Python and SQL"),
    *("User likes hiking in the mountains", "User's doctor is Dr. Smith", "User has an appointment on Friday"),
    *("User reads science fiction", "On 2026-03-01 the user bought a new laptop"),
    *("On 2026-02-10 the user visited Rome", "To deploy the service: run the tests, build the image, push it"),
    *("User's team uses Jira and Slack", "User's flight leaves at 9 am", "User wants short answers"),
    *("User's mother lives in another country", "User is saving for a house"),
    *("User takes medicine every morning", "User's exam is next month", "User cooks pasta on Sundays"),
    *("用户住在上海", "用户对花生过敏", "用户每周三上瑜伽课", "用户的预算是五千元", "用户养了一只猫"),
    "2026年3月用户去了北京",
)
_NEAREST = 2


@dataclass(frozen=True, slots=True)
class Intent:
    """How near a request is to each kind: the mean cosine with the two nearest sentences."""

    general: float = 0.0
    chat: float = 0.0
    asking: float = 0.0
    request: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Prototypes:
    """The embedded sentences, one row each.

    Attributes:
        kinds: of requests, one kind after the other.
        ends: where each kind ends, in the order of `Intent`'s attributes.
        background: statements as memories are written, of no user.
    """

    kinds: NDArray[np.float32]
    ends: tuple[int, ...]
    background: NDArray[np.float32]

    def intent(self, vector: Vector) -> Intent:
        nearness = (self.kinds @ vector).tolist()
        return Intent(*(_nearest(nearness[start:end]) for start, end in pairwise((0, *self.ends))))


async def embed_prototypes(embedder: Embedder) -> Prototypes:
    """Embed the sentences: a tenth of a second, in another thread.

    Raises:
        UnavailableError: the model does not answer.
    """
    kinds = [await _queries(embedder, texts) for texts in (_GENERAL, _CHAT, _ASKING, _REQUESTS)]
    return Prototypes(
        kinds=np.concatenate(kinds),
        ends=tuple(accumulate(map(len, kinds))),
        background=np.stack(await embedder.embed_passages(_BACKGROUND)),
    )


async def _queries(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack([await embedder.embed_query(text) for text in texts])


def _nearest(nearness: Sequence[float]) -> float:
    nearest = sorted(nearness)[-_NEAREST:]
    return sum(nearest) / len(nearest)


class LazyPrototypes:
    """The prototypes, embedded once, at the first call. A request that cannot wait leaves the result to the next."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._task: asyncio.Task[Prototypes] | None = None

    async def get(self) -> Prototypes:
        """Raises `UnavailableError`; the next call tries again."""
        if self._task is None or _failed(self._task):
            self._task = asyncio.create_task(embed_prototypes(self._embedder))
        if self._task.done():
            return self._task.result()
        return await asyncio.shield(self._task)


def _failed(task: asyncio.Task[Prototypes]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
