"""Compares the answers of a replay with the recorded ones.

Compared are: which answers came, in which order; how each body changed, as bytes, as JSON, or not at all; which headers
are set and removed; and how the stream ended. Not compared: when; and dynamic metadata, which tells ids and times that
differ at each run.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import orjson

from semrouter_memory.replay.playing import Played
from semrouter_memory.replay.records import (
    Begin,
    End,
    EndedBy,
    ProcessingRequest,
    ProcessingResponse,
    RecordedExchange,
    header_value,
)

Level = Literal["bytes", "json", "kinds"]

_CONTEXT_LINES = 2
_MAX_DIFF_LINES = 60
_NEAR_BYTES = 24


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between replay and recording.

    Attributes:
        where: which exchange and stream.
        what: a sentence.
        lines: of a unified diff, recorded first.
    """

    where: str
    what: str
    lines: tuple[str, ...] = ()


def differences(exchange: RecordedExchange, played: dict[int, Played], *, level: Level = "bytes") -> list[Difference]:
    """The differences of one exchange.

    Args:
        level: how bodies are compared; `json`: equal JSON is equal; `kinds`: only whether they change.
    """
    found: list[Difference] = []
    for number, stream in played.items():
        records = [record.event for record in exchange.records if record.stream == number]
        recorded = [event for event in records if isinstance(event, ProcessingResponse)]
        answered = stream.answers
        ended = next((event.by for event in records if isinstance(event, End)), EndedBy.CUT)
        if ended is EndedBy.CUT:
            # What came after the recording ended is not known.
            answered = answered[: len(recorded)]
        where = f"{exchange.location}, {_description(exchange, number)}"
        if any(isinstance(event, Begin) and event.answers_known for event in records):
            found += [replace(each, where=where) for each in _answers(recorded, answered, level)]
        found += [Difference(where, what) for what in _endings(stream, ended)]
    return found


def _endings(stream: Played, ended: EndedBy) -> Iterator[str]:
    if stream.status not in ("OK", ""):
        yield f"the stream ended with {stream.status}"
    elif ended is EndedBy.MEMORY and not stream.ended:
        yield "the service ended this stream; now it stays open"


def _answers(
    recorded: Sequence[ProcessingResponse], played: Sequence[ProcessingResponse], level: Level
) -> Iterator[Difference]:
    kinds, now = ([answer.kind for answer in answers] for answers in (recorded, played))
    if kinds != now:
        diff = _diff(kinds, now)
        yield Difference("", f"other answers: recorded {len(kinds)}, now {len(now)}", diff)
    for before, after in zip(recorded, played, strict=False):
        if before.kind == after.kind:
            yield from _answer(before, after, level)


def _answer(before: ProcessingResponse, after: ProcessingResponse, level: Level) -> Iterator[Difference]:
    kind = before.kind
    if (before.body is None) is not (after.body is None):
        yield _changed_or_not(before, after)
    elif before.body != after.body and level != "kinds":
        yield from _bodies(kind, before.body or b"", after.body or b"", level)
    same_body = before.body == after.body
    headers, now = (_header_lines(answer, lengths=same_body) for answer in (before, after))
    if headers != now:
        yield Difference("", f"{kind}: other headers", _diff(headers, now))
    names = ("streamed", "end_of_stream", "replaces", "clear_route_cache", "http_status")
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield Difference("", f"{kind}: {name} was {old}, now {new}")


def _changed_or_not(before: ProcessingResponse, after: ProcessingResponse) -> Difference:
    if before.body is None:
        return Difference(
            "", f"{before.kind}: the body was left as it is; now it is changed", _diff([], _readable(after.body))
        )
    return Difference(
        "", f"{before.kind}: the body was changed; now it is left as it is", _diff(_readable(before.body), [])
    )


def _bodies(kind: str, before: bytes, after: bytes, level: Level) -> Iterator[Difference]:
    if _json(before) is not None and _json(before) == _json(after):
        if level == "bytes":
            at = next((index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
            near = slice(max(0, at - _NEAR_BYTES), at + _NEAR_BYTES)
            lines = (f"-{before[near]!r}", f"+{after[near]!r}")
            yield Difference("", f"{kind}: the same JSON, written otherwise from byte {at} on", lines)
        return
    yield Difference("", f"{kind}: another body", _diff(_readable(before), _readable(after)))


def _header_lines(answer: ProcessingResponse, *, lengths: bool) -> list[str]:
    """Lengths follow from bodies, which are compared by themselves."""
    headers = (each for each in answer.set_headers if lengths or each.name.lower() != "content-length")
    changed = (f"{each.name}: {each.value.decode('utf-8', 'replace')} ({each.action})" for each in headers)
    return sorted([*changed, *(f"{name} removed" for name in answer.remove_headers)])


def _json(data: bytes) -> object | None:
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value


def _readable(data: bytes | None) -> list[str]:
    """A body as lines: JSON laid out, text as it is, anything else by its length."""
    if not data:
        return []
    value = _json(data)
    if value is not None:
        # Texts of several lines are shown as such.
        laid_out = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()
        return [part for line in laid_out for part in line.split("\\n")]
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError:
        return [f"{len(data)} bytes: {data[:_NEAR_BYTES].hex(' ')} ..."]


def _diff(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(before, after, "recorded", "now", n=_CONTEXT_LINES, lineterm=""))
    if len(lines) > _MAX_DIFF_LINES:
        return (*lines[:_MAX_DIFF_LINES], f"... {len(lines) - _MAX_DIFF_LINES} further lines")
    return tuple(lines)


def _description(exchange: RecordedExchange, number: int) -> str:
    for record in exchange.records:
        event = record.event
        if record.stream == number and isinstance(event, ProcessingRequest):
            method, path = (header_value(event.headers, name) for name in (":method", ":path"))
            role = "copies" if event.observing else "stream"
            return f"{role} {number} ({method or '?'} {path or '?'})"
    return f"stream {number}"
