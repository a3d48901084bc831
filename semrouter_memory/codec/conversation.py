"""A conversation in the terms both APIs share, and its split into what was answered and the turn that is under way.

Strategy: each codec reduces its messages to entries; here they are put into runs of one kind. A run of assistant
entries is an answer unless it calls a tool (then it is a step on the way) or ends the request (then it is the beginning
of the answer that the client wants to have continued).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from itertools import accumulate, groupby
from typing import NamedTuple, TypedDict

from semrouter_memory.codec.base import CALLS, Outline, ToolResult, strip_block, strip_reasoning
from semrouter_memory.model import Message, PastTurn, Role, ToolUse

_OUTCOME_CHARS = 200
"""How much of a tool's result says how it went."""
_SEVERAL = 2


class Kind(Enum):
    CONTEXT = auto()
    """System and developer messages, and whatever is neither the user's nor the assistant's."""
    USER = auto()
    ASSISTANT = auto()
    RESULT = auto()
    """What a tool returned."""
    ATTACHED = auto()
    """Says nothing in the conversation, but belongs to what was said before it: reasoning, a server's own tools."""


class Call(NamedTuple):
    """A tool call; `id` is what its result refers to. The model does not wait for that of one that `is_async`."""

    id: str
    name: str
    arguments: str = ""
    is_async: bool = False


class Entry(NamedTuple):
    """One message or item.

    Attributes:
        calls: the tools that an assistant entry calls.
        call_id: the call that a result answers.
        place: position in the request's array; -1 for what is not in it.
        lasting: it holds what no text can stand for (an image, a file, sound).
        speaker: the name that a message gives its author.
    """

    kind: Kind
    text: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    place: int = -1
    lasting: bool = False
    speaker: str = ""


class Conversation(TypedDict):
    """The fields of `ParsedRequest` that follow from the conversation."""

    history: tuple[Message, ...]
    turn_texts: tuple[str, ...]
    parted: tuple[Message, ...]
    speakers: tuple[str, ...]
    tools: tuple[ToolUse, ...]
    in_tool_loop: bool
    visible: tuple[str, ...]


def converse(entries: Sequence[Entry], *, joint: str) -> Conversation:
    """Split a conversation.

    Args:
        joint: what stands between assistant entries of one answer.
    """
    runs, answered = _runs(entries)
    turn = [entry for run in runs[answered:] for entry in run]
    parted, last = _parted(runs[answered:])
    return Conversation(
        history=tuple(_messages(runs[:answered], joint)),
        turn_texts=tuple(_user_texts(turn)),
        parted=tuple(parted),
        speakers=_speakers(entries, turn),
        tools=_tools(entry for run in last for entry in run),
        in_tool_loop=bool(runs) and not _is_answer(runs[-1]) and runs[-1][0].kind is not Kind.USER,
        visible=tuple(entry.text for entry in entries if entry.text),
    )


def answered_by_calls(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a conversation in which calls are answers: those after which the user speaks again.

    Their results say nothing: a client adds them because an API demands a result for each call.
    """
    found = list(entries)
    closed = answered = False
    for at in reversed(range(len(found))):
        entry = found[at]
        match entry.kind:
            case Kind.USER:
                closed, answered = True, False
            case Kind.ASSISTANT if closed:
                answered = True
                found[at] = entry._replace(text=entry.text + "".join(call.arguments for call in entry.calls), calls=())
            case Kind.RESULT if closed and not answered:
                found[at] = entry._replace(kind=Kind.ATTACHED)
            case Kind.RESULT:
                closed = False
    return found


def outline(entries: Sequence[Entry], *, joint: str) -> Outline:
    """Where the conversation can be cut. `joint` is the same as for `converse`."""
    runs, answered = _runs(entries)
    ends = [
        index + 1
        for index, run in enumerate(runs[:answered])
        if _is_answer(run) and (index + 1 == len(runs) or runs[index + 1][0].kind is Kind.USER)
    ]
    turn_of = _turns_of_entries(entries, runs, ends)
    whole = cuttable(entries, turn_of, len(ends))
    lengths = [sum(1 for _ in _messages(runs[start:end], joint)) for start, end in zip([0, *ends], ends, strict=False)]
    return Outline(
        turns=tuple(_past_turns(entries, turn_of, whole, list(accumulate(lengths)))),
        answers_calls=frozenset(entry.call_id for entry in entries if entry.call_id),
    )


def results(entries: Sequence[Entry], replaceable: Callable[[int], bool]) -> tuple[ToolResult, ...]:
    """The results of tools, each with the tool's name: that of the latest call with its id.

    Args:
        replaceable: whether another text may stand in place of the result at that position.
    """
    names: dict[str, str] = {}
    found: list[ToolResult] = []
    for entry in entries:
        names.update((call.id, call.name) for call in entry.calls)
        if entry.kind is Kind.RESULT:
            found.append(ToolResult(entry.place, names.get(entry.call_id, ""), entry.text, replaceable(entry.place)))
    return tuple(found)


def _runs(entries: Sequence[Entry]) -> tuple[list[tuple[Entry, ...]], int]:
    """The runs of one kind, and how many of them were answered before this turn."""
    spoken = (entry for entry in entries if entry.kind not in (Kind.CONTEXT, Kind.ATTACHED))
    runs = [tuple(run) for _, run in groupby(spoken, key=lambda entry: entry.kind)]
    return runs, max((index + 1 for index in range(len(runs) - 1) if _was_answer(runs, index)), default=0)


def _turns_of_entries(
    entries: Sequence[Entry], runs: Sequence[Sequence[Entry]], ends: Sequence[int]
) -> list[int | None]:
    """The turn that each entry belongs to, numbered from 0; None for what belongs to none."""
    turns = iter([bisect_right(ends, index) for index, run in enumerate(runs) for _ in run])
    current = 0
    belongs: list[int | None] = []
    for entry in entries:
        if entry.kind is Kind.CONTEXT:
            belongs.append(None)
            continue
        if entry.kind is not Kind.ATTACHED:
            current = next(turns)
        belongs.append(current)
    return belongs


def cuttable(entries: Sequence[Entry], turn_of: Sequence[int | None], count: int) -> list[bool]:
    """For each turn whether the conversation can be cut behind it: no call's result comes later."""
    reach = [0] * count
    called: dict[str, int] = {}
    for entry, turn in zip(entries, turn_of, strict=True):
        if turn is None:
            continue
        if (entry.call_id or entry.kind is Kind.RESULT) and entry.call_id in called:
            start = called[entry.call_id]
            if start < count:
                reach[start] = max(reach[start], turn)
        called.update((call.id, turn) for call in entry.calls)
    # Ids may repeat in each turn, so how far each turn reaches is looked at once, at the end.
    return [furthest <= turn for turn, furthest in enumerate(accumulate(reach, max))]


def _past_turns(
    entries: Sequence[Entry], turn_of: Sequence[int | None], whole: Sequence[bool], messages: Sequence[int]
) -> Iterable[PastTurn]:
    """The turns up to each possible cut; what cannot be cut is one turn.

    A turn with what no text can stand for has no places: it stays, as a whole, wherever the conversation is cut.
    """
    ends = [turn for turn, can_be_cut in enumerate(whole) if can_be_cut]
    places: list[list[int]] = [[] for _ in ends]
    texts: list[list[tuple[int, int]]] = [[] for _ in ends]
    lasting = [False] * len(ends)
    visible = 0
    for entry, turn in zip(entries, turn_of, strict=True):
        index = bisect_left(ends, turn) if turn is not None else len(ends)
        if index < len(ends):
            places[index] += [entry.place] if entry.place >= 0 else []
            lasting[index] |= entry.lasting
            if entry.text:
                texts[index].append((visible, len(entry.text)))
        visible += bool(entry.text)
    for end, stays, own_places, own_texts in zip(ends, lasting, places, texts, strict=True):
        yield PastTurn(
            number=end + 1,
            messages=messages[end],
            places=() if stays else tuple(own_places),
            texts=() if stays else tuple(at for at, _ in own_texts),
            chars=sum(size for _, size in own_texts),
        )


def _is_answer(run: Sequence[Entry]) -> bool:
    return run[0].kind is Kind.ASSISTANT and all(call.is_async for entry in run for call in entry.calls)


def _was_answer(runs: Sequence[Sequence[Entry]], index: int) -> bool:
    """What has no text here and comes before a tool's result was a call, which the server alone knows."""
    called = runs[index + 1][0].kind is Kind.RESULT and not any(entry.text for entry in runs[index])
    return _is_answer(runs[index]) and not called


def _messages(runs: Iterable[Sequence[Entry]], joint: str) -> Iterable[Message]:
    for run in runs:
        if run[0].kind is Kind.USER:
            yield from (Message(Role.USER, text) for text in _user_texts(run))
        elif _is_answer(run):
            text = strip_reasoning(strip_block(joint.join(entry.text for entry in run)))
            if text.strip():
                yield Message(Role.ASSISTANT, text)


def _parted(runs: Sequence[Sequence[Entry]]) -> tuple[list[Message], Sequence[Sequence[Entry]]]:
    """A turn's runs, parted where the user spoke last behind calls: what came before that, and the runs from there on."""
    before: list[Message] = []
    if all(run[0].kind is not Kind.USER for run in runs[1:]):
        return before, runs
    said: list[Message] = []
    start = 0
    for place, run in enumerate(runs):
        texts = [Message(Role.USER, text) for text in _user_texts(run)]
        # Between two runs of the user's is one of calls.
        if texts and said:
            before += [*said, CALLS]
            said, start = [], place
        said += texts
    return before, runs[start:]


def _user_texts(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        if entry.kind is Kind.USER and (text := strip_block(entry.text)).strip():
            yield text


def _speakers(entries: Sequence[Entry], turn: Sequence[Entry]) -> tuple[str, ...]:
    if len({entry.speaker for entry in entries if entry.kind is Kind.USER}) < _SEVERAL:
        return ()
    return tuple(entry.speaker for entry in turn for _ in _user_texts([entry]))


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
