"""Captures exchanges on the request path, and renders them as the bytes of a recording in a process of its own.

Strategy: the request path keeps the bytes and the time of each message, and nothing else. The streams of one HTTP exchange
(`x-request-id`) are recorded together, and handed over whole when the last of them has ended; cleaning, writing and waiting
happen elsewhere. Memory is bounded: an exchange that would not fit is left out and counted, and the rest of its streams is
ignored. Nothing here raises, whatever a message contains. Everything runs in the event loop's thread, except `release`.

A captured exchange is ordered, cleaned and written in a format by a `Renderer`, in its own process: searching bodies for secrets
takes milliseconds per kilobyte, which a thread would take from the requests. The process has a lower priority and ends with the
sidecar.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing import connection, get_context, parent_process
from typing import NamedTuple, Protocol
from zlib import crc32

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.cleaning import Cleaner, CleaningSettings
from semrouter_memory.replay.pb.recording_pb2 import Begin, End, Record
from semrouter_memory.replay.records import Format, parsed, request_id_in, written
from semrouter_memory.termination import SIGNALS
from semrouter_memory.transport.pb.ext_proc_pb2 import HeaderValue, ProcessingRequest, ProcessingResponse

_MAX_STREAMS = 4
"""Of one exchange. An exchange has two at most; a client that repeats a request id must not make it unbounded."""
_OVERHEAD_BYTES = 200
"""What a message takes in memory besides its bytes."""


class RawEvent(NamedTuple):
    """A message of a stream, or its beginning or end.

    Attributes:
        at: its time, as `time.monotonic()` counts.
        kind: `begin`, `request`, `response` or `ended`, whose `data` is `memory` or `envoy`: who ended the stream.
        data: the message.
    """

    stream: int
    at: float
    kind: str
    data: bytes


@dataclass(slots=True)
class RawExchange:
    """An exchange that is not cleaned yet.

    Attributes:
        number: counts this process's exchanges; names one without a request id.
        started_at: when it began.
        metadata: of each of its streams, by number.
    """

    number: int
    request_id: str
    started_at: datetime
    began: float
    metadata: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    events: list[RawEvent] = field(default_factory=list)
    nbytes: int = 0


class RecordingSink(Protocol):
    """A recording that is being made."""

    @property
    def sample(self) -> float: ...

    def take(self, exchange: RawExchange, release: Callable[[], None]) -> None:
        """Queue it to be written and then released. Quick."""

    def left_out(self) -> None:
        """An exchange of the sample is not recorded."""


@dataclass(slots=True)
class _ActiveExchange:
    key: str
    raw: RawExchange
    sinks: tuple[RecordingSink, ...]
    running: int = 0
    given_up: bool = False


class Capture:
    """Records the messages between Envoy and this service, for any number of recordings at a time. Quick, never raises, writes later.

    Args:
        max_bytes: bound on the exchanges in memory: those that run, and those that wait to be written.
        max_exchange_bytes: bound on one of them.
    """

    def __init__(self, *, max_bytes: int, max_exchange_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_exchange_bytes = max_exchange_bytes
        self._sinks: tuple[RecordingSink, ...] = ()
        self._open: dict[str, _ActiveExchange] = {}
        self.held_bytes = 0
        self._lock = threading.Lock()
        self._streams = 0
        self._exchanges = 0

    def add(self, sink: RecordingSink) -> None:
        self._sinks = (*self._sinks, sink)

    def remove(self, sink: RecordingSink) -> None:
        """Stop giving it exchanges; those that run are cut and handed over."""
        self._sinks = tuple(each for each in self._sinks if each is not sink)
        for each in list(self._open.values()):
            if sink in each.sinks:
                self._hand_over(each, (sink,))
                each.sinks = tuple(left for left in each.sinks if left is not sink)

    def begin(self, metadata: Mapping[str, str]) -> "CapturedStream | None":
        """A stream was opened; None: it is not recorded."""
        if not self._sinks:
            return None
        self._streams += 1
        return CapturedStream(self, self._streams, tuple(metadata.items()))

    def join(self, stream: int, metadata: tuple[tuple[str, str], ...], first: bytes) -> _ActiveExchange | None:
        """The exchange of a stream that begins with this message; None: it is not recorded."""
        try:
            request_id = request_id_in(first)
        except InputFileError:
            request_id = ""
        key = request_id or f"\0{stream}"
        exchange = self._open.get(key)
        if exchange is not None and len(exchange.raw.metadata) >= _MAX_STREAMS:
            key, exchange = f"\0{stream}", None
        if exchange is None:
            sinks = tuple(sink for sink in self._sinks if _chosen(request_id, sink.sample))
            if not sinks:
                return None
            self._exchanges += 1
            raw = RawExchange(self._exchanges, request_id, datetime.now(UTC), time.monotonic())
            exchange = self._open[key] = _ActiveExchange(key, raw, sinks)
        exchange.running += 1
        exchange.raw.metadata[stream] = metadata
        self.note(exchange, stream, "begin", b"")
        return exchange

    def note(self, exchange: _ActiveExchange, stream: int, kind: str, data: bytes) -> None:
        if exchange.given_up:
            return
        raw = exchange.raw
        size = len(data) + _OVERHEAD_BYTES
        if raw.nbytes + size > self._max_exchange_bytes or self.held_bytes + size > self._max_bytes:
            self._give_up(exchange)
            return
        raw.events.append(RawEvent(stream, time.monotonic(), kind, data))
        raw.nbytes += size
        self._change(size)

    def leave(self, exchange: _ActiveExchange) -> None:
        """One of its streams has ended."""
        exchange.running -= 1
        if exchange.running:
            return
        del self._open[exchange.key]
        if not exchange.given_up:
            self._hand_over(exchange, exchange.sinks)
            self._change(-exchange.raw.nbytes)

    def _give_up(self, exchange: _ActiveExchange) -> None:
        exchange.given_up = True
        self._change(-exchange.raw.nbytes)
        exchange.raw.events.clear()
        for sink in exchange.sinks:
            sink.left_out()

    def _hand_over(self, exchange: _ActiveExchange, sinks: tuple[RecordingSink, ...]) -> None:
        if exchange.given_up:
            return
        raw = exchange.raw
        for sink in sinks:
            copy = replace(raw, metadata=dict(raw.metadata), events=list(raw.events))
            self._change(raw.nbytes)
            sink.take(copy, lambda size=raw.nbytes: self._change(-size))  # type: ignore[misc]  # mypy cannot tell it

    def _change(self, size: int) -> None:
        with self._lock:
            self.held_bytes += size


class CapturedStream:
    """Implements `RecordedStream`."""

    __slots__ = ("_capture", "_exchange", "_metadata", "_number", "_started")

    def __init__(self, capture: Capture, number: int, metadata: tuple[tuple[str, str], ...]) -> None:
        self._capture = capture
        self._number = number
        self._metadata = metadata
        self._exchange: _ActiveExchange | None = None
        self._started = False

    def request(self, message: bytes) -> None:
        """The first message has the request id, which decides whether the exchange is recorded."""
        if not self._started:
            self._started = True
            self._exchange = self._capture.join(self._number, self._metadata, message)
        self._note("request", message)

    def response(self, message: bytes) -> None:
        self._note("response", message)

    def ended(self, *, by_us: bool) -> None:
        self._note("ended", b"memory" if by_us else b"envoy")
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            self._capture.leave(exchange)

    def _note(self, kind: str, data: bytes) -> None:
        if self._exchange is not None:
            self._capture.note(self._exchange, self._number, kind, data)


def _chosen(request_id: str, sample: float) -> bool:
    """Decided by the request id, so that all streams of an exchange, in whatever process, are recorded or none."""
    share = crc32(request_id.encode("utf-8", "replace")) / 0x1_0000_0000 if request_id else random.random()  # noqa: S311 - no secret
    return share < sample


# -- rendering ---------------------------------------------------------------------------------------------------------


_NICE = 10


@dataclass(frozen=True, slots=True)
class Rendering:
    """How exchanges are written.

    Attributes:
        base: `time.monotonic()` that times count from; None: each exchange from its own beginning.
    """

    format: Format
    cleaning: CleaningSettings
    base: float | None = None


def rendered(raw: RawExchange, how: Rendering) -> bytes:
    records = records_of(raw, raw.began if how.base is None else how.base)
    return written(_cleaner(how.cleaning).cleaned(records), how.format)


def records_of(raw: RawExchange, base: float) -> list[Record]:
    """The exchange as records; streams that have not ended are cut."""
    name = raw.request_id or f"exchange-{raw.number}"
    records = [_record(event, raw, name, base) for event in raw.events]
    ended = {record.stream for record in records if record.HasField("end")}
    last = records[-1].time_us if records else 0
    end = End(by=End.CUT, note="recording ended")
    cut = [Record(stream=stream, time_us=last, end=end) for stream in raw.metadata if stream not in ended]
    return [*records, *cut]


def _record(event: RawEvent, raw: RawExchange, name: str, base: float) -> Record:
    record = Record(stream=event.stream, time_us=max(0, round((event.at - base) * 1e6)))
    match event.kind:
        case "begin":
            metadata = [HeaderValue(key=key, raw_value=value.encode()) for key, value in raw.metadata[event.stream]]
            record.begin.CopyFrom(Begin(exchange=name, metadata=metadata))
        case "request":
            record.request.CopyFrom(parsed(ProcessingRequest, event.data))
        case "response":
            record.response.CopyFrom(parsed(ProcessingResponse, event.data))
        case _:
            record.end.CopyFrom(End(by=event.data.decode().upper()))
    return record


_cleaner = lru_cache(maxsize=1)(Cleaner)


class Renderer:
    """Renders in its own process, one exchange at a time. Used by one thread."""

    def __init__(self, how: Rendering) -> None:
        self._how = how
        self._pool: ProcessPoolExecutor | None = None

    def render(self, raw: RawExchange) -> bytes:
        """Raises: InputFileError, when it cannot be rendered."""
        try:
            return self._running().submit(rendered, raw, self._how).result()
        except BrokenProcessPool:
            # Killed, for whatever reason: the next exchange gets a new one.
            self.close()
            raise InputFileError("the process that renders recordings was killed") from None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_settle_in)
        return self._pool


def _settle_in() -> None:
    """Signals are for the parent, which then ends this process; when it dies, no other process would."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(0)
