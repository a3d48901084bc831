"""Plays exchanges against a server as Envoy did: the same streams and messages in the same order.

Strategy: an exchange is a script. A message is sent when it is due and every answer that preceded it in the recording has
arrived. A stream that Envoy ended is half-closed; the end of one that the service ended is waited for. A server that
deviates (no answer in time, a stream that ends early) does not stop the script: the comparison shows it.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import grpc
import grpc.aio

from semrouter_memory.errors import InputFileError, Service, UnavailableError
from semrouter_memory.replay.pb.recording_pb2 import Begin, End, Record
from semrouter_memory.replay.records import MAX_RECORD_BYTES, RecordedExchange, parsed
from semrouter_memory.transport.pb.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from semrouter_memory.transport.wire import value_of

Level = Literal["bytes", "json", "kinds"]
METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
_END: Any = getattr(grpc.aio, "EOF")  # noqa: B009 - the stubs do not know it
_MAX_ANSWERS = 1_000_000
_RESERVED = frozenset({"te", "user-agent", "content-type", "content-length", "host", "connection"})
_RESERVED_BEGINNINGS = ("grpc-", ":")
"""gRPC metadata that the client library sends itself."""


@dataclass(slots=True)
class Played:
    """One stream of the replay.

    Attributes:
        ended: the server ended it.
        status: the name of gRPC's status code, for example "OK".
    """

    answers: list[ProcessingResponse] = field(default_factory=list)
    ended: bool = False
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What to play and how.

    Attributes:
        target: host:port, or unix:path.
        speed: 2 is twice as fast; None: as fast as the order allows.
        timeout_seconds: bound on waiting for one answer.
        metadata: gRPC metadata for every stream, in place of what was recorded under the same name.
        level: how bodies are compared.
        max_gap_seconds: bound on the pause between exchanges, for example between recordings of different days.
    """

    files: tuple[Path, ...]
    target: str
    speed: float | None
    timeout_seconds: float
    metadata: Mapping[str, str] = field(default_factory=dict)
    level: Level = "bytes"
    max_gap_seconds: float = 5.0


class Player:
    """Plays any number of exchanges over one connection. Use as an async context manager."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        limits = [
            ("grpc.max_receive_message_length", MAX_RECORD_BYTES),
            ("grpc.max_send_message_length", MAX_RECORD_BYTES),
        ]
        self._channel: Any = grpc.aio.insecure_channel(options.target, options=limits)

    async def __aenter__(self) -> Self:
        """Raises: UnavailableError, when the target does not answer."""
        try:
            async with asyncio.timeout(self._options.timeout_seconds):
                await self._channel.channel_ready()
        except TimeoutError:
            await self._channel.close(None)
            target = self._options.target
            raise UnavailableError(
                f"no answer from {target}: is the sidecar running, and is this its address?", service=Service.SERVER
            ) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close(None)

    async def play(self, exchange: RecordedExchange, *, starts_at: float) -> dict[int, Played]:
        """Play one exchange.

        Args:
            starts_at: the loop's time that its first record belongs to.

        Returns:
            Its streams, by their number.
        """
        streams: dict[int, _Stream] = {}
        first_us = exchange.records[0].time_us
        try:
            for record in exchange.records:
                await self._wait_until(starts_at, record.time_us - first_us)
                await self._step(record, streams)
            for stream in streams.values():
                await stream.settle()
        finally:
            for stream in streams.values():
                await stream.close()
        return {number: stream.played for number, stream in streams.items()}

    async def _wait_until(self, starts_at: float, after_us: int) -> None:
        if self._options.speed is not None:
            due = starts_at + after_us / 1e6 / self._options.speed
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def _step(self, record: Record, streams: dict[int, "_Stream"]) -> None:
        match record.WhichOneof("record"):
            case "begin":
                call = self._channel.stream_stream(METHOD)(metadata=self._metadata(record.begin))
                answers_known = not record.begin.answers_unknown
                streams[record.stream] = _Stream(call, self._options, answers_known=answers_known)
            case "request":
                await streams[record.stream].send(record.request)
            case "response":
                streams[record.stream].expected += 1
            case "end":
                await streams[record.stream].end(record.end.by)

    def _metadata(self, begin: Begin) -> list[tuple[str, str]]:
        own = {name.lower(): value for name, value in self._options.metadata.items()}
        pairs = [(each.key.lower(), value_of(each).decode("utf-8", "replace")) for each in begin.metadata]
        recorded = [(name, value) for name, value in pairs if sendable(name, value) and name not in own]
        return [*recorded, *own.items()]


class _Stream:
    def __init__(self, call: Any, options: ReplayOptions, *, answers_known: bool) -> None:
        self.played = Played()
        self._call = call
        self._options = options
        self._answers_known = answers_known
        self.expected = 0
        self._late = False
        self._observing = False
        self._half_closed = False
        self._changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def send(self, request: ProcessingRequest) -> None:
        await self._until(self._answered)
        message = request.SerializeToString()
        # The server ends a stream when it has nothing more to do there, and Envoy then sends no more.
        if not self.played.ended and not self._half_closed:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
                await self._call.write(message)
        self._observing = self._observing or request.observability_mode
        if not self._answers_known and not self._observing:
            self.expected += 1

    async def end(self, by: int) -> None:
        await self._until(self._answered)
        if by == End.MEMORY:
            await self._until(lambda: self.played.ended)
        else:
            await self._half_close()

    async def settle(self) -> None:
        """Half-close, and wait for the server to end the stream."""
        await self._half_close()
        await self._until(lambda: self.played.ended)

    async def close(self) -> None:
        self._call.cancel()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    def _answered(self) -> bool:
        return len(self.played.answers) >= self.expected

    async def _half_close(self) -> None:
        if not self._half_closed:
            self._half_closed = True
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
                await self._call.done_writing()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds`; after one timeout, the stream is not waited for again."""
        if self._late:
            return
        try:
            async with asyncio.timeout(self._options.timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: holds() or self.played.ended)
        except TimeoutError:
            self._late = True

    async def _read(self) -> None:
        played = self.played
        try:
            while (data := await self._call.read()) is not _END and len(played.answers) < _MAX_ANSWERS:
                played.answers.append(parsed(ProcessingResponse, data))
                await self._notify()
            played.status = (await self._call.code()).name
        except grpc.aio.AioRpcError as error:
            played.status = error.code().name
        except InputFileError:
            played.status = "an answer that is no ProcessingResponse"
        played.ended = True
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def sendable(name: str, value: str) -> bool:
    """Whether gRPC takes this metadata from a caller."""
    lower = name.lower()
    legal = bool(name) and lower.isascii() and all(char.isalnum() or char in "-_." for char in lower)
    return (
        legal
        and lower not in _RESERVED
        and not lower.startswith(_RESERVED_BEGINNINGS)
        and not lower.endswith("-bin")
        and value.isascii()
        and value.isprintable()
    )
