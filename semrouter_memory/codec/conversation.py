"""A conversation in the terms both APIs share, and its split into what was answered and the turn that is under way.

Strategy: each codec reduces its messages to entries; here they are put into runs of one kind. A run of assistant
entries is an answer unless it calls a tool (then it is a step on the way) or ends the request (then it is the beginning
of the answer that the client wants to have continued).
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import NamedTuple, TypedDict

from semrouter_memory.codec.base import strip_block, strip_reasoning
from semrouter_memory.model import Message, Role, ToolUse

_OUTCOME_CHARS = 200
"""How much of a tool's result says how it went."""


class Kind(Enum):
    CONTEXT = auto()
    """System and developer messages, and whatever is neither the user's nor the assistant's."""
    USER = auto()
    ASSISTANT = auto()
    RESULT = auto()
    """What a tool returned."""


class Call(NamedTuple):
    """A tool call; `id` is what its result refers to."""

    id: str
    name: str


class Entry(NamedTuple):
    """One message or item.

    Attributes:
        calls: the tools that an assistant entry calls.
        call_id: the call that a result answers.
    """

    kind: Kind
    text: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""


class Conversation(TypedDict):
    """The fields of `ParsedRequest` that follow from the conversation."""

    history: tuple[Message, ...]
    turn_texts: tuple[str, ...]
    tools: tuple[ToolUse, ...]
    in_tool_loop: bool
    visible: tuple[str, ...]


def converse(entries: Sequence[Entry], *, joint: str) -> Conversation:
    """Split a conversation.

    Args:
        joint: what stands between assistant entries of one answer.
    """
    spoken = (entry for entry in entries if entry.kind is not Kind.CONTEXT)
    runs = [tuple(run) for _, run in groupby(spoken, key=lambda entry: entry.kind)]
    answered = max((index + 1 for index, run in enumerate(runs[:-1]) if _is_answer(run)), default=0)
    turn = [entry for run in runs[answered:] for entry in run]
    return Conversation(
        history=tuple(_messages(runs[:answered], joint)),
        turn_texts=tuple(_user_texts(turn)),
        tools=_tools(turn),
        in_tool_loop=bool(runs) and not _is_answer(runs[-1]) and runs[-1][0].kind is not Kind.USER,
        visible=tuple(entry.text for entry in entries if entry.text),
    )


def _is_answer(run: Sequence[Entry]) -> bool:
    return run[0].kind is Kind.ASSISTANT and not any(entry.calls for entry in run)


def _messages(runs: Iterable[Sequence[Entry]], joint: str) -> Iterable[Message]:
    for run in runs:
        if run[0].kind is Kind.USER:
            yield from (Message(Role.USER, text) for text in _user_texts(run))
        elif _is_answer(run):
            text = strip_reasoning(strip_block(joint.join(entry.text for entry in run)))
            if text.strip():
                yield Message(Role.ASSISTANT, text)


def _user_texts(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        if entry.kind is Kind.USER and (text := strip_block(entry.text)).strip():
            yield text


def _tools(turn: Iterable[Entry]) -> tuple[ToolUse, ...]:
    """Each call with its result. Ids may repeat from step to step: a result belongs to the latest call."""
    used: list[ToolUse] = []
    latest: dict[str, int] = {}
    for entry in turn:
        for call in entry.calls:
            latest[call.id] = len(used)
            used.append(ToolUse(call.name))
        if entry.kind is Kind.RESULT and (index := latest.get(entry.call_id)) is not None:
            used[index] = ToolUse(used[index].name, strip_block(entry.text)[:_OUTCOME_CHARS])
    return tuple(tool for tool in used if tool.name)
