"""What is stored and asked, made of lists of words, the same in every run; and the requests that ask it. Pure.

Strategy: what costs time is how many memories there are, how long they are and how many of their words a question shares,
so the statements are of many forms about many things, and most questions share a word with some hundredth of them.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from semrouter_memory.model import Memory, MemoryType, Scope

_SEED = 20261
_PLACES = (
    *("Hawaii", "Norway", "Kyoto", "Lisbon", "Quebec", "Nairobi", "Oaxaca", "Tallinn", "Hanoi", "Cusco"),
    *("Zagreb", "Tbilisi", "Osaka", "Bergen", "Malta", "Denver", "Perth", "Krakow", "Ghent", "Sapporo"),
)
_PEOPLE = (
    *("Anna", "Boris", "Chloe", "Dmitri", "Esther", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kavita", "Liam", "Mei"),
    *("Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Samir", "Tara", "Uwe", "Vera", "Wei", "Yusuf"),
)
_KIN = ("sister", "brother", "colleague", "neighbour", "manager", "dentist", "landlord", "cousin", "tutor", "coach")
_THINGS = (
    *("budget", "hotel", "guide", "insurance", "packing list", "arrival day", "rental car", "travel partner", "visa"),
    *("train ticket", "itinerary", "restaurant", "museum pass", "hiking route", "ferry", "luggage"),
)
_VALUES = (
    *("the blue one", "still open", "booked for March", "paid in advance", "the cheapest there was", "with breakfast"),
    *("shared with two friends", "cancelled in May", "the same as last year", "arranged by the agency"),
)
_HABITS = (
    *("plays badminton", "practises the cello", "waters the tomatoes", "cooks lentil soup", "calls the grandparents"),
    *(
        "swims forty lengths",
        "reviews the household accounts",
        "bakes sourdough bread",
        "walks the dog",
        "studies Korean",
    ),
    *("repairs old bicycles", "volunteers at the library", "paints miniatures", "goes climbing", "cleans the aquarium"),
)
_TIMES = (
    "on Monday evenings",
    "every Sunday",
    "before work",
    "twice a month",
    "after lunch",
    "in winter",
    "at weekends",
)
_PROJECTS = ("billing", "search", "payroll", "telemetry", "onboarding", "catalogue", "checkout", "archive", "scheduler")
_TOOLS = ("Terraform", "Postgres", "Ansible", "Kafka", "Redis", "Django", "Grafana", "GitLab", "Kubernetes", "SQLite")
_LIKES = (
    "dark mode",
    "short answers",
    "window seats",
    "black tea",
    "spicy food",
    "paper books",
    "quiet hotels",
    "jazz",
)

_STATEMENTS = (
    (MemoryType.SEMANTIC, "User's {thing} for the trip to {place} in {year} is {value}"),
    (MemoryType.SEMANTIC, "User {habit} {time} with {person} in {place}"),
    (MemoryType.SEMANTIC, "User's {kin} {person} lives in {place} and {habit} {time}"),
    (MemoryType.SEMANTIC, "User prefers {like} when working on the {project} service with {person}"),
    (MemoryType.SEMANTIC, "User pays ${amount} a month for the {thing} that {person} recommended"),
    (MemoryType.EPISODIC, "On {year}-{month:02d}-{day:02d} the user went to {place} with {person} and {habit} there"),
    (MemoryType.EPISODIC, "On {year}-{month:02d}-{day:02d} the user decided to move the {project} service to {tool}"),
    (
        MemoryType.PROCEDURAL,
        "To deploy the {project} service: run the tests, build with {tool}, tell {person}, release",
    ),
)
_QUESTIONS = (
    "What's my {thing} for {place} in {year}?",
    "Is my {thing} for {place} in {year} {value}?",
    "Where does my {kin} {person} from {place} live now?",
    "When did I last go to {place} with my {kin} {person}?",
    "How do {person} and I deploy the {project} service with {tool}?",
    "Which of our services did {person} decide to move to {tool} in {year}?",
    "How much do I pay for the {thing} that {person} recommended in {year}?",
    "Can you suggest a present for {person}, who {habit} {time}?",
    "Draft a short message to {person} about our {project} service and {tool}",
    "What do I usually do {time} with {person} in {place}?",
    "Plan a relaxed weekend in {place} for me and my {kin} {person}",
    "Who was it that {habit} with me {time} in {place}?",
    "What did I tell {person} about the {project} service and {tool}?",
    "Does my {kin} {person} know that I prefer {like}?",
)
_MESSAGES = (
    (
        "I'm going to {place} with my {kin} {person} in {year}, the {thing} costs ${amount} and is {value}. Can you suggest what we"
        " could do there on a rainy day?"
    ),
    (
        "My {kin} {person} {habit} {time} now. Please draft a short message to congratulate {person}. Something warm, four or five"
        " sentences, and mention {place} where we met in {year}."
    ),
    (
        "Our {project} service runs on {tool} since last week and {person} is on call for it. How would you roll out the next"
        " release without a pause for the customers?"
    ),
    (
        "Thanks, that helps. I prefer {like} by the way, and I only have time {time}. What would be a good next step for somebody"
        " who has never been to {place}?"
    ),
)
_CHAT = "/v1/chat/completions"
_MESSAGE_CHARS = 2_000
_DRAWS = 20
"""So often a question is drawn again that was asked before; by then nearly all of its form were."""


def statements(count: int, seed: int = 0) -> Iterator[tuple[MemoryType, str]]:
    """So many statements, hardly any twice; another seed gives others."""
    draw = random.Random(_SEED + seed)  # noqa: S311 - the same memories in every run
    for number in range(count):
        kind, form = _STATEMENTS[number % len(_STATEMENTS)]
        yield kind, _filled(form, draw)


def messages(count: int, seed: int = 0) -> Iterator[str]:
    """So many messages of about 30 words in two or three sentences, of which one or two tell something about the user."""
    draw = random.Random(_SEED + seed)  # noqa: S311 - the same messages in every run
    return (_filled(form, draw) for form, _ in zip(itertools.cycle(_MESSAGES), range(count), strict=False))


def questions(count: int, seed: int = 0) -> list[str]:
    """So many questions of 4 to 15 words, all different as long as there are such (about 25,000)."""
    return Asker(seed).take(count)


class Asker:
    """Asks on and on, and nothing twice."""

    def __init__(self, seed: int = 0) -> None:
        self._draw = random.Random(_SEED - 1 - seed)  # noqa: S311 - the same questions in every run
        self._asked: set[str] = set()
        self._forms = itertools.cycle(_QUESTIONS)

    def take(self, count: int) -> list[str]:
        return [self._next() for _ in range(count)]

    def _next(self) -> str:
        form = next(self._forms)
        question = _filled(form, self._draw)
        for _ in range(_DRAWS):
            if question not in self._asked:
                break
            question = _filled(form, self._draw)
        self._asked.add(question)
        return question


def memory_of(scope: Scope, number: int, statement: tuple[MemoryType, str], *, now: datetime) -> Memory:
    """The statement as what the user said so many hours ago."""
    kind, content = statement
    said_at = now - timedelta(hours=number)
    return Memory(
        id=f"mem_{number:012x}{number:016x}",
        scope=scope,
        type=kind,
        content=content,
        source="conversation",
        observed_at=said_at,
        created_at=said_at,
        updated_at=said_at,
        session_id=f"session-{number // 10:08d}",
        metadata={"extractor": "quotes", "model": "m", "turn_ids": [f"turn-{number:024x}"]},
    )


def _filled(form: str, draw: random.Random) -> str:
    return form.format(
        place=draw.choice(_PLACES),
        person=draw.choice(_PEOPLE),
        kin=draw.choice(_KIN),
        thing=draw.choice(_THINGS),
        value=draw.choice(_VALUES),
        habit=draw.choice(_HABITS),
        time=draw.choice(_TIMES),
        project=draw.choice(_PROJECTS),
        tool=draw.choice(_TOOLS),
        like=draw.choice(_LIKES),
        year=draw.randrange(2019, 2027),
        month=draw.randrange(1, 13),
        day=draw.randrange(1, 29),
        amount=draw.randrange(5, 900),
    )


def key_of(user: str) -> str:
    """The API key that Envoy knows a user of the benchmark by."""
    return f"bench-key-{user}"


def http_request(user: str, body: bytes) -> bytes:
    """A whole HTTP/1.1 request."""
    head = (
        f"POST {_CHAT} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key_of(user)}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def question_body(question: str, *, stream: bool = False) -> bytes:
    """A conversation that begins with the question."""
    return _chat_body([{"role": "user", "content": question}], stream=stream)


def _chat_body(messages: Sequence[Mapping[str, Any]], *, stream: bool = False) -> bytes:
    return json.dumps(
        {"model": "m", "stream": stream, "messages": messages}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def long_body(question: str, size: int) -> bytes:
    """A conversation of about so many bytes that ends with the question; no two begin the same way."""
    messages: list[dict[str, str]] = [{"role": "system", "content": f"This conversation led to: {question}"}]
    left = size - len(_chat_body([*messages, {"role": "user", "content": question}]))
    prose = _prose()
    while left > 0:
        role = "assistant" if len(messages) % 2 == 0 else "user"
        text = prose[: min(left, _MESSAGE_CHARS)]
        messages.append({"role": role, "content": text})
        left -= len(text) + len('{"role":"assistant","content":""},')
    if messages[-1]["role"] == "user":
        messages.append({"role": "assistant", "content": "I see."})
    return _chat_body([*messages, {"role": "user", "content": question}])


def _prose() -> str:
    """Text about things in general: nothing of it is said by or about whoever asks."""
    text = ". ".join(content.replace("User", "The guest").replace("user", "guest") for _, content in statements(60))
    return text[:_MESSAGE_CHARS]
