"""The section `prefix`: how much of the prompt stays the same from turn to turn, which is what prompt caches live from.

Strategy: a client plays a conversation as clients do: it sends what was said so far, without what was put into it on the
way. Between turns the user's memories change. What reaches the upstream is rendered as a list of messages, the
instructions first, and compared with the prompt before, character by character from the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import orjson

from semrouter_memory.bench import accounting
from semrouter_memory.bench.bodies import CHAT, RESPONSES, chat_body, http_request, key_of, responses_body
from semrouter_memory.bench.client import load
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Prefixes, PrefixFigures
from semrouter_memory.bench.installation import ALONE, PRODUCT, Installation
from semrouter_memory.bench.workload import questions, statements
from semrouter_memory.codec.base import BLOCK_OPEN
from semrouter_memory.model import Position
from semrouter_memory.stack.parrot import text_of

_APIS = {"chat": CHAT, "responses": RESPONSES}
_WITHOUT = "no memory"
_TURNS, _QUICK_TURNS = 24, 12
_MEMORIES = 200
_NEW_EVERY = 2
"""Turns after which the user has another memory."""
_INSTRUCTIONS = " ".join(
    f"Rule {number}: answer in the language of the question, briefly, and say so when you do not know; this is point"
    f" {number} of the house style that every assistant of this service keeps to."
    for number in range(1, 9)
)
_ANSWER_WORDS = (20, 60, 120)


@dataclass(slots=True)
class _Conversation:
    """One client's.

    Attributes:
        prompts: as the upstream got them.
    """

    api: str
    port: int
    user: str
    said: list[dict[str, str]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def request(self, question: str) -> bytes:
        self.said.append({"role": "user", "content": question})
        if self.api == "responses":
            body = responses_body(_INSTRUCTIONS, self.said)
        else:
            body = chat_body([{"role": "system", "content": _INSTRUCTIONS}, *self.said])
        return http_request(self.user, body, path=_APIS[self.api])

    def answered(self, text: str) -> None:
        self.said.append({"role": "assistant", "content": text})


async def prefixes(bench: Bench) -> Prefixes:
    """Measure."""
    turns = _QUICK_TURNS if bench.amount.quick else _TURNS
    routes = {position.value: {"x-memory-position": position.value} for position in Position}
    users = {f"{api}-{position}": _MEMORIES for api in _APIS for position in routes}
    data = bench.directory / "prefix" / "data"
    await bench.seed(data, users)
    async with bench.installation("prefix", data, {**users, _WITHOUT: 0}, routes=routes) as on:
        conversations = {
            f"{api}, {position}": _Conversation(api, on.ports[position], f"{api}-{position}")
            for api in _APIS
            for position in routes
        } | {f"{api}, {_WITHOUT}": _Conversation(api, on.ports[ALONE], _WITHOUT) for api in _APIS}
        with bench.progress(f"conversations of {turns} turns, with memories that change", turns) as done:
            asked = questions(turns)
            new = [content for _, content in statements(turns, seed=7)]
            for number, question in enumerate(asked):
                for conversation in conversations.values():
                    await _turn(on, conversation, question, number)
                if number % _NEW_EVERY == 0:
                    await _tell(on, list(users), new[number])
                done(1)
    return Prefixes(conversations={name: compared(each.prompts) for name, each in sorted(conversations.items())})


async def _turn(on: Installation, conversation: _Conversation, question: str, number: int) -> None:
    await load(conversation.port, [conversation.request(question)])
    conversation.prompts.append(rendered(orjson.loads(await on.last_body())))
    words = _ANSWER_WORDS[number % len(_ANSWER_WORDS)]
    conversation.answered(f"As to {question!r}: " + " ".join(["one thing follows from the other"] * (words // 6)))
    await accounting.quiet(on.service(PRODUCT))


async def _tell(on: Installation, users: Sequence[str], content: str) -> None:
    async with httpx.AsyncClient(base_url=on.api_url, timeout=30) as client:
        for user in users:
            headers = {"authorization": f"Bearer {key_of(user)}"}
            (await client.post("/v1/memory", json={"content": content}, headers=headers)).raise_for_status()


def rendered(body: dict[str, Any]) -> str:
    """The prompt that a body asks for, as a chat template would write it. Pure."""
    messages = body.get("messages") or body.get("input") or []
    instructions = body.get("instructions")
    if instructions:
        messages = [{"role": "system", "content": instructions}, *messages]
    return "".join(f"<{message.get('role')}>\n{text_of(message.get('content'))}\n" for message in messages)


def compared(prompts: Sequence[str]) -> PrefixFigures:
    """Each prompt with the one before it. Pure."""
    pairs = list(pairwise(prompts))
    same = [_common_chars(*pair) for pair in pairs]
    return PrefixFigures(
        turns=len(prompts),
        kept=sum(length / len(before) for length, (before, _) in zip(same, pairs, strict=True)) / len(pairs),
        cached=sum(same) / sum(len(after) for _, after in pairs),
        with_memory=sum(BLOCK_OPEN in prompt for prompt in prompts),
    )


def _common_chars(one: str, other: str) -> int:
    """From the start."""
    differing = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))
