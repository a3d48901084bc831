"""Renders a captured exchange as the bytes of a recording: ordered, cleaned, written in a format.

Runs in its own process (`Renderer`): searching bodies for secrets takes milliseconds per kilobyte, which a thread would
take from the requests. The process has a lower priority and ends with the sidecar.
"""

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection, get_context, parent_process

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.capture import RawEvent, RawExchange
from semrouter_memory.replay.cleaning import Cleaner, CleaningSettings
from semrouter_memory.replay.pb.recording_pb2 import Begin, End, Record
from semrouter_memory.replay.records import Format, parsed, written
from semrouter_memory.transport.pb.ext_proc_pb2 import HeaderValue, ProcessingRequest, ProcessingResponse

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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(0)
