"""What the exchange knows of an API's bodies, whichever API it is; and the texts in them, without what is not said in them."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, Protocol

from semrouter_memory.language.scripts import in_form
from semrouter_memory.model import (
    ANY_MEMORY,
    Json,
    MemoryFilter,
    MemoryType,
    Message,
    OwnerKind,
    PastTurn,
    Role,
    ToolUse,
)

BLOCK_OPEN = "<!-- semrouter-memory:begin -->"
BLOCK_CLOSE = "<!-- semrouter-memory:end -->"
"""The injected block stands between these, so that it can be found and stripped again."""

_USERS = frozenset({"user", "human"})
"""Names of messages that are no one's in particular."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSettings:
    """Settings that a request's body or a route carries; None where it is silent.

    Attributes:
        limits: memories injected at most of an owner other than the user.
        shares: part of the token budget that they may take.
        unreadable: names of the settings that cannot be read; what they govern is off there.
    """

    enabled: bool | None = None
    auto_store: bool | None = None
    memory_types: frozenset[MemoryType] | None = None
    retrieval_limit: int | None = None
    similarity_threshold: float | None = None
    memory_filter: MemoryFilter = ANY_MEMORY
    limits: Mapping[OwnerKind, int] = field(default_factory=dict)
    shares: Mapping[OwnerKind, float] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySettings(GivenSettings):
    """`memory_config` and `memory_context` of a request body."""

    session_end: bool | None = None
    user_id: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """A request body, understood. A *turn* is what stands after the last assistant answer (tool calls are no answer).

    Attributes:
        history: user and assistant texts before this turn, oldest first.
        turn_texts: the user's messages of this turn, in order.
        parted: this turn up to where the user spoke again behind calls, `CALLS` in place of each run of calls: these may
            have been the answer.
        speakers: who said each of them ("": it has no name); empty where all user messages of the request have the same
            name, or none.
        tools: tools called in this turn since the user spoke last, with the beginning of their results.
        in_tool_loop: the last message is a tool's result (or an assistant's tool call): a continuation of the turn.
        forces_call: the request leaves the model nothing but to call the one tool that it has. So do clients that want a
            structured answer: the call is the answer.
        visible: every text in the request, system prompt and tool results included.
        stored_by_server: a later request may name this one's answer instead of repeating the conversation (the
            Responses API, unless `store` is false).
        body: the body as it was parsed, for `Codec.outline`, `Codec.items` and `Codec.rewrite`; None when it is not held.
        entries: the codec's own reading of its messages, for `Codec.outline`.
    """

    settings: BodySettings
    model: str = ""
    history: tuple[Message, ...] = ()
    turn_texts: tuple[str, ...] = ()
    parted: tuple[Message, ...] = ()
    speakers: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    in_tool_loop: bool = False
    forces_call: bool = False
    visible: tuple[str, ...] = ()
    previous_response_id: str = ""
    conversation_id: str = ""
    stored_by_server: bool = False
    body: Mapping[str, Json] | None = field(default=None, repr=False, compare=False)
    entries: Sequence[Any] = field(default=(), repr=False, compare=False)

    def said_by(self, user: str) -> tuple[str, ...]:
        """The user's own messages since the last answer: with several speakers, those that no other one sent.

        Frameworks of several agents call every user "user".
        """
        if not self.speakers:
            return self.last_texts
        said = zip(self.speakers, self.turn_texts, strict=True)
        return tuple(
            text for name, text in list(said)[self._answered :] if name in ("", user) or name.lower() in _USERS
        )

    @property
    def steps_before(self) -> tuple[Message, ...]:
        """This turn up to its last answer of nothing but calls, and that answer."""
        # In a stored chain no step is a turn of its own, see `turn_of`.
        return () if self.stored_by_server else self.parted

    @property
    def last_texts(self) -> tuple[str, ...]:
        """The user's messages since then."""
        return self.turn_texts[self._answered :]

    @property
    def _answered(self) -> int:
        return sum(message.role is Role.USER for message in self.steps_before)

    @property
    def query(self) -> str:
        """The last user message of the turn, "" when there is none."""
        return self.turn_texts[-1] if self.turn_texts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A request's conversation as an array from which turns can be left out.

    Attributes:
        turns: the answered turns, oldest first. Between two of them the array can be cut: no tool's result is on one
            side and its call on the other.
        answers_calls: ids of the tool calls whose results the request brings.
    """

    turns: tuple[PastTurn, ...] = ()
    answers_calls: frozenset[str] = frozenset()


class ToolResult(NamedTuple):
    """What a tool returned.

    Attributes:
        place: position in the request's array.
        tool: the name of the tool; "" when the request does not say it.
        replaceable: it is nothing but text, and another text may stand in its place.
    """

    place: int
    tool: str
    text: str
    replaceable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful answer.

    Attributes:
        texts: the text of each choice, without reasoning; "" for a choice that is only tool calls.
        complete: the answer came to its regular end (`[DONE]`, a finish reason, `response.completed`, a whole JSON), or to a
            limit, of which these tell, too.
        calls: names of the tools that the first choice calls; then the turn goes on.
        arguments: what the first choice calls them with.
        depicts: it has an image, so it is an answer without a text, too.
        is_later: it is made in the background, and fetched past us.
        items: the answer's items as the Responses API spells them, None when not all of them are known.
    """

    texts: tuple[str, ...]
    complete: bool
    response_id: str = ""
    model: str = ""
    calls: tuple[str, ...] = ()
    arguments: str = ""
    depicts: bool = False
    is_later: bool = False
    items: tuple[Json, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The first choice's text."""
        return self.texts[0] if self.texts else ""


class AnswerReader(Protocol):
    """Reads one answer. Takes bytes split anywhere; bounded; never raises on what an upstream sends."""

    @property
    def ended(self) -> bool:
        """The answer says itself that it is at its end, though the body may go on."""

    @property
    def over(self) -> bool:
        """It is larger than the bound."""

    def feed(self, data: bytes) -> None: ...

    def finish(self) -> Answer | None:
        """The answer read so far, or None when there was none (error object, garbage, bound exceeded)."""


CALLS = Message(Role.ASSISTANT, "(calls)")
"""Stands in a transcript for an answer of nothing but calls."""

_EMPTY = hashlib.sha256().digest()

_DECODER = json.JSONDecoder(strict=False)
_LAST_COMMA = re.compile(r",(?=\s*[\]}])")
_VALUE_BEGINS = {"[": ("{", "]"), "{": ('"',)}
_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)\s*", re.DOTALL | re.IGNORECASE)
_THINK_END = re.compile(r"(?:\A|\n)[ \t]*</think(?:ing)?>[ \t]*(?:\n\s*|\Z)", re.IGNORECASE)


def block(*parts: str) -> str:
    """The parts, a line or more each, between the marks."""
    return "\n".join((BLOCK_OPEN, *parts, BLOCK_CLOSE))


def strip_block(text: str) -> str:
    """The text without blocks that we injected (they come back when a client or server repeats what it was given)."""
    parts: list[str] = []
    at = 0
    # Searching for the marks is linear in the text, whatever it holds; no pattern with a `.*?` in it is.
    while (start := text.find(BLOCK_OPEN, at)) >= 0 and (end := text.find(BLOCK_CLOSE, start)) >= 0:
        parts.append(text[at:start].rstrip())
        at = end + len(BLOCK_CLOSE)
    return "".join((*parts, text[at:])) if parts else text


def unfenced(answer: str) -> str:
    """Without the code fence that many models put around an answer."""
    text = answer.strip()
    if not text.startswith("```"):
        return text
    fence = text.split(None, 1)[0]
    return text.removeprefix(fence if fence[3:].isalpha() else "```").removesuffix("```").strip()


def strip_reasoning(text: str) -> str:
    """The text without `<think>` sections; an unclosed one runs to the end.

    A closing tag on a line of its own ends a section that began with the text: some chat templates put the opening tag
    into the prompt.
    """
    # The first look takes a fortieth of the second one's time.
    if "<" not in text or "think" not in text.lower():
        return text
    text = _THINK.sub("", text)
    end = _THINK_END.search(text)
    return text[end.end() :] if end else text


def json_values(answer: str) -> Iterator[Json]:
    """The arrays of objects and the objects in a model's answer, whatever text is around them; none from a broken one on.

    Line breaks in a string and a comma behind the last item are no break: local models write both.
    """
    text, end = _LAST_COMMA.sub("", strip_reasoning(answer)), 0
    for at, sign in enumerate(text):
        # As in "see [1]" no value begins.
        if at < end or sign not in _VALUE_BEGINS or text[at + 1 : at + 40].lstrip()[:1] not in _VALUE_BEGINS[sign]:
            continue
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def transcript_hash(messages: Iterable[Message]) -> str:
    """A chained hash of a conversation: equal for what we saw being answered and what the client sends back later.

    White space at the ends, Unicode composition, reasoning and our own block make no difference, because clients and
    servers drop or add them; messages without text do not count.
    """
    return continued_hash("", messages)


def transcript_hashes(messages: Sequence[Message], lengths: Sequence[int]) -> list[str]:
    """The transcript hashes of the first so many messages, for each of the lengths, which grow."""
    chain = [_EMPTY, *_chain(messages[: lengths[-1] if lengths else 0], _EMPTY)]
    return [chain[length].hex() for length in lengths]


def continued_hash(before: str, messages: Iterable[Message]) -> str:
    """The transcript hash of a conversation whose beginning has the hash `before` ("": none) and goes on with these."""
    start = bytes.fromhex(before) if before else _EMPTY
    return reduce(lambda _, after: after, _chain(messages, start), start).hex()


def _chain(messages: Iterable[Message], chain: bytes) -> Iterator[bytes]:
    """The hash after each message."""
    for message in messages:
        text = in_form("NFC", strip_reasoning(strip_block(message.text))).strip()
        if text:
            chain = hashlib.sha256(
                chain + message.role.value.encode() + b"\0" + text.encode("utf-8", "replace")
            ).digest()
        yield chain
