"""The same exchange with its bodies cut at other places, as another network would have cut them.

Only bodies that Envoy sends in chunks are cut: a buffered one always comes whole.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from semrouter_memory.replay.records import ProcessingRequest, ProcessingResponse, Record, RecordedExchange

_CHUNKED = ("STREAMED", "FULL_DUPLEX_STREAMED")
_MAX_PIECES = 64


def rechunked(exchange: RecordedExchange, chance: random.Random) -> RecordedExchange:
    """The exchange, cut at random; the same state of `chance` cuts at the same places."""
    records: list[Record] = []
    modes: dict[int, tuple[bool, bool]] = {}
    for run in _runs(exchange.records):
        first = run[0].event
        if isinstance(first, ProcessingRequest) and first.kind == "request_headers":
            modes[run[0].stream] = _cut_modes(first)
        cuttable = modes.get(run[0].stream, (False, False))
        if isinstance(first, ProcessingRequest) and first.kind in _BODIES and cuttable[_BODIES.index(first.kind)]:
            records += _recut(run, first, chance)
        else:
            records += run
    return replace(exchange, records=tuple(records))


_BODIES = ("request_body", "response_body")


def _cut_modes(first: ProcessingRequest) -> tuple[bool, bool]:
    """Whether the bodies of request and answer come in chunks; without a word of Envoy, copies do."""
    modes = (first.request_body_mode, first.response_body_mode)
    request, response = (first.observing if mode is None else mode in _CHUNKED for mode in modes)
    return request, response


def _runs(records: tuple[Record, ...]) -> Iterator[list[Record]]:
    """Records as they are, but pieces of one body together, at the place of the last one; answers between them follow."""
    held: dict[int, list[Record]] = {}
    for record in records:
        waiting = held.get(record.stream)
        if waiting and not isinstance(record.event, ProcessingResponse) and _kind(record) != _kind(waiting[0]):
            yield from _released(held.pop(record.stream))
            waiting = None
        if _kind(record) in _BODIES or waiting:
            held.setdefault(record.stream, []).append(record)
        else:
            yield [record]
        if isinstance(record.event, ProcessingRequest) and record.event.end_of_stream and record.stream in held:
            yield from _released(held.pop(record.stream))
    for waiting in held.values():
        yield from _released(waiting)


def _released(records: list[Record]) -> Iterator[list[Record]]:
    yield [record for record in records if isinstance(record.event, ProcessingRequest)]
    yield from ([record] for record in records if not isinstance(record.event, ProcessingRequest))


def _kind(record: Record) -> str:
    """Of a message of Envoy's, "" for everything else."""
    return record.event.kind if isinstance(record.event, ProcessingRequest) else ""


def _recut(run: list[Record], first: ProcessingRequest, chance: random.Random) -> list[Record]:
    data = b"".join(record.event.body for record in run if isinstance(record.event, ProcessingRequest))
    last = run[-1].event
    assert isinstance(last, ProcessingRequest)
    count = min(len(data), chance.randint(0, min(_MAX_PIECES, 2 * len(run) + 8)))
    places = [0, *sorted(chance.sample(range(1, len(data)), count - 1) if count > 1 else []), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    whole = [replace(first, body=piece, end_of_stream=False) for piece in pieces]
    if last.end_of_stream and chance.random() < 0.5:  # noqa: PLR2004 - an even chance
        # Envoy ends a stream of events with a message that is empty.
        whole.append(replace(first, body=b""))
    whole[-1] = replace(whole[-1], end_of_stream=last.end_of_stream)
    return [replace(run[-1], event=event) for event in whole]
