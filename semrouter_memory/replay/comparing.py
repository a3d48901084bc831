"""Compares the answers of a replay with the recorded ones.

Compared are: which answers came, in which order; how each body changed, as bytes, as JSON, or not at all; which headers
are set and removed; and how the stream ended. Not compared: when; dynamic metadata, which tells ids and times that
differ at each run; and, of injected memories, their ids and the days on which they were said, which are those of the run.
"""

import calendar
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import orjson

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.replay.pb.recording_pb2 import End
from semrouter_memory.replay.playing import Level, Played
from semrouter_memory.replay.records import RecordedExchange, body_part, fields_in, header_value, kind_of, mutation_of
from semrouter_memory.transport.pb.ext_proc_pb2 import CommonResponse, ProcessingResponse, StreamedBodyResponse
from semrouter_memory.transport.wire import value_of

_CONTEXT_LINES = 2
_MAX_DIFF_LINES = 60
_NEAR_BYTES = 24
_MONTHS = frozenset(calendar.month_name[1:])
_DATE_WORDS = _MONTHS | frozenset(calendar.day_abbr) | {"to"}
_DATE_SIGNS = "0123456789年月日至"


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
        records = [record for record in exchange.records if record.stream == number]
        recorded = [record.response for record in records if record.HasField("response")]
        answered = stream.answers
        ended = next((record.end.by for record in records if record.HasField("end")), End.CUT)
        if ended == End.CUT:
            # What came after the recording ended is not known.
            answered = answered[: len(recorded)]
        where = f"{exchange.location}, {_description(exchange, number)}"
        if any(record.HasField("begin") and not record.begin.answers_unknown for record in records):
            found += [replace(each, where=where) for each in _answers(recorded, answered, level)]
        found += [Difference(where, what) for what in _endings(stream, ended)]
    return found


def _endings(stream: Played, ended: int) -> Iterator[str]:
    if stream.status not in ("OK", ""):
        yield f"the stream ended with {stream.status}"
    elif ended == End.MEMORY and not stream.ended:
        yield "the service ended this stream; now it stays open"


def _answers(
    recorded: Sequence[ProcessingResponse], played: Sequence[ProcessingResponse], level: Level
) -> Iterator[Difference]:
    kinds, now = ([kind_of(answer) for answer in answers] for answers in (recorded, played))
    if kinds != now:
        diff = _diff(kinds, now)
        yield Difference("", f"other answers: recorded {len(kinds)}, now {len(now)}", diff)
    for before, after in zip(recorded, played, strict=False):
        if kind_of(before) == kind_of(after):
            yield from _answer(before, after, level)


def _answer(before: ProcessingResponse, after: ProcessingResponse, level: Level) -> Iterator[Difference]:
    kind = kind_of(before)
    body, body_now = _body(before), _body(after)
    if (body is None) is not (body_now is None):
        was, now = ("left as it is", "changed") if body is None else ("changed", "left as it is")
        what = f"{kind}: the body was {was}; now it is {now}"
        yield Difference("", what, _diff(_readable(body), _readable(body_now)))
    elif level != "kinds":
        yield from _bodies(kind, _lasting(body or b""), _lasting(body_now or b""), level)
    headers, headers_now = (_header_lines(answer, lengths=body == body_now) for answer in (before, after))
    if headers != headers_now:
        yield Difference("", f"{kind}: other headers", _diff(headers, headers_now))
    flags, flags_now = _flags(before), _flags(after)
    for name, flag in flags.items():
        if flag != flags_now[name]:
            yield Difference("", f"{kind}: {name} was {flag}, now {flags_now[name]}")


def _body(answer: ProcessingResponse) -> bytes | None:
    part = body_part(answer)
    return None if part is None else part.body


def _flags(answer: ProcessingResponse) -> dict[str, bool | int]:
    """Of an answer, what is neither body nor header nor metadata."""
    kind, piece = kind_of(answer), body_part(answer)
    common = getattr(answer, kind).response if kind.endswith(("_headers", "_body")) else CommonResponse()
    is_piece = isinstance(piece, StreamedBodyResponse)
    return {
        "streamed": is_piece,
        "end_of_stream": is_piece and piece.end_of_stream,
        "replaces": common.status == CommonResponse.CONTINUE_AND_REPLACE,
        "clear_route_cache": common.clear_route_cache,
        "http_status": answer.immediate_response.status.code,
    }


def _bodies(kind: str, before: bytes, after: bytes, level: Level) -> Iterator[Difference]:
    if before == after:
        return
    if _json(before) is not None and _json(before) == _json(after):
        if level == "bytes":
            at = next((index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
            near = slice(max(0, at - _NEAR_BYTES), at + _NEAR_BYTES)
            lines = (f"-{before[near]!r}", f"+{after[near]!r}")
            yield Difference("", f"{kind}: the same JSON, written otherwise from byte {at} on", lines)
        return
    yield Difference("", f"{kind}: another body", _diff(_readable(before), _readable(after)))


def _lasting(body: bytes) -> bytes:
    """The body without what its block says of the run: the days of memories, and their ids."""
    before, opening, rest = body.partition(BLOCK_OPEN.encode())
    block, closing, after = rest.partition(BLOCK_CLOSE.encode())
    words = ["".join(run) for _, run in groupby(block.decode("utf-8", "surrogateescape"), str.isalnum)]
    for date in _dates(words):
        words[date] = ["day", *[""] * (date.stop - date.start - 1)]
    for index, word in enumerate(words[:-2]):
        if word == "mem" and words[index + 1] == "_":
            words[index + 2] = "id"
    return b"".join((before, opening, "".join(words).encode("utf-8", "surrogateescape"), closing, after))


def _dates(words: list[str]) -> Iterator[slice]:
    """The days before memories and in brackets; in the middle of a sentence they are the user's."""
    start = 1
    while start < len(words):
        end = start + 1
        if _is_of_date(words[start]):
            while words[end : end + 1] == [" "] and _is_of_date("".join(words[end + 1 : end + 2])):
                end += 2
            mark, named = words[start - 1], any(word in _MONTHS or "年" in word for word in words[start:end])
            alone = mark.endswith("(") and "".join(words[end : end + 1]).startswith(")")
            if alone or (named and mark != " "):
                yield slice(start, end)
        start = end


def _is_of_date(word: str) -> bool:
    return word in _DATE_WORDS or (word != "" and not word.strip(_DATE_SIGNS))


def _header_lines(answer: ProcessingResponse, *, lengths: bool) -> list[str]:
    """Lengths follow from bodies, which are compared by themselves."""
    mutation = mutation_of(answer)
    options = [each for each in mutation.set_headers if lengths or each.header.key.lower() != "content-length"]
    actions = [option.HeaderAppendAction.Name(option.append_action) for option in options]
    changed = (
        f"{option.header.key}: {value_of(option.header).decode('utf-8', 'replace')} ({action})"
        for option, action in zip(options, actions, strict=True)
    )
    return sorted([*changed, *(f"{name} removed" for name in mutation.remove_headers)])


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
        if record.stream == number and record.HasField("request"):
            method, path = (header_value(fields_in(record), name) for name in (":method", ":path"))
            role = "copies" if record.request.observability_mode else "stream"
            return f"{role} {number} ({method or '?'} {path or '?'})"
    return f"stream {number}"
