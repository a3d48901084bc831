"""All recordings of a running sidecar: the configured one, and live ones that the operator asks for.

Each has a thread that renders captured exchanges and writes them to an output.
"""

import asyncio
import queue
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import structlog

from semrouter_memory.config import RecordingConfig
from semrouter_memory.errors import InputFileError, InvalidRequestError
from semrouter_memory.replay.capture import Capture, RawExchange, Renderer, Rendering
from semrouter_memory.replay.cleaning import CleaningSettings
from semrouter_memory.replay.folder import Folder, FolderSettings
from semrouter_memory.replay.pb.recording_pb2 import End, Record
from semrouter_memory.replay.records import header, rfc3339, written

_log = structlog.get_logger("semrouter_memory.replay")


Output: TypeAlias = Callable[[bytes, datetime], bool]
"""Writes a rendered exchange that began then, in the recording's thread, and tells whether it did. Raises: InputFileError, when
no further one can be written."""


class Recording:
    """Runs from `start` until `detach`.

    Args:
        sample: share of the exchanges.
        output: an error that it raises ends the recording and is logged once.

    Attributes:
        recorded: how many exchanges of the sample are recorded.
        not_recorded: how many are not.
        failed: why it stopped.
    """

    def __init__(self, capture: Capture, output: Output, *, sample: float, rendering: Rendering) -> None:
        self._capture = capture
        self._output = output
        self.sample = sample
        self._renderer = Renderer(rendering)
        self._queue: queue.SimpleQueue[tuple[RawExchange, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
        self.failed = ""
        self.recorded = self.not_recorded = 0

    def start(self) -> None:
        self._thread.start()
        self._capture.add(self)

    def detach(self) -> None:
        """Record nothing new: running exchanges are cut and written, then the thread ends. For the event loop's thread."""
        self._capture.remove(self)
        self._queue.put(None)

    def wait(self, timeout_seconds: float) -> None:
        """After `detach`: wait until everything is written; for another thread than the event loop's."""
        self._thread.join(timeout_seconds)

    def take(self, exchange: RawExchange, release: Callable[[], None]) -> None:
        """Same as `RecordingSink.take`; the capture's bound limits the queue."""
        self._queue.put((exchange, release))

    def left_out(self) -> None:
        self.not_recorded += 1
        if self.not_recorded == 1:
            _log.warning("Exchanges are left out of the recording: too large, or too many at a time")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            exchange, release = item
            try:
                self._write(exchange)
            except Exception as error:  # noqa: BLE001 - the next exchange may succeed
                self.not_recorded += 1
                _log.error("An exchange could not be recorded", error=type(error).__name__)
            finally:
                release()
        self._renderer.close()

    def _write(self, exchange: RawExchange) -> None:
        if self.failed:
            self.not_recorded += 1
            return
        data = self._renderer.render(exchange)
        try:
            taken = self._output(data, exchange.started_at)
        except InputFileError as error:
            self.not_recorded += 1
            # It names a file or directory, never content.
            self.failed = str(error)
            _log.error("Recording stopped", error=str(error))
            return
        if taken:
            self.recorded += 1
        else:
            self.left_out()


_MB = 1024 * 1024
_MAX_LIVE = 4
_STOP_SECONDS = 10.0


class Recordings:
    """Use `capture` as the processor's recorder.

    Args:
        redact: takes secrets out of a text; a function of a module, since another process runs it.
        identity_headers: names of headers that carry ids.
        secret_headers: names of headers that carry this installation's own secrets.
        pseudonym_key: from the configuration; None: one is drawn.
    """

    def __init__(
        self,
        config: RecordingConfig,
        *,
        directory: Path,
        redact: Callable[[str], str],
        identity_headers: frozenset[str],
        secret_headers: frozenset[str],
        pseudonym_key: str | None,
    ) -> None:
        self._config = config
        self._directory = config.directory.expanduser() if config.directory else directory
        self._redact = redact
        self._identity_headers = identity_headers
        self._headers = frozenset(config.redact_headers) | secret_headers
        self._key = pseudonym_key.encode() if pseudonym_key else secrets.token_bytes(32)
        self._running: set[Recording] = set()
        self._configured: Recording | None = None
        self._stopping = asyncio.Event()
        self.capture = Capture(
            max_bytes=config.max_buffer_mb * _MB,
            max_exchange_bytes=min(config.max_file_mb, config.max_buffer_mb) * _MB,
        )

    async def start(self) -> None:
        """Start what the configuration asks for. Raises: InputFileError."""
        if not self._config.enabled:
            return
        folder = await asyncio.to_thread(Folder, self._folder())

        def sink(exchange: bytes, started_at: datetime) -> bool:
            return folder.append(exchange, started_at=rfc3339(started_at)) is not None

        rolling = self._config.files == "rolling"
        rendering = Rendering(
            self._config.format,
            self._cleaning(pseudonymise=self._config.pseudonymise),
            base=time.monotonic() if rolling else None,
        )
        self._configured = Recording(self.capture, sink, sample=self._config.sample, rendering=rendering)
        self._begin(self._configured)

    async def stop(self) -> None:
        """Write what was captured and end all recordings; live ones get their end record."""
        self._stopping.set()
        for recording in list(self._running):
            await self._end(recording)

    def live(
        self, seconds: float, *, sample: float = 1.0, pseudonymise: bool = False, headers: Iterable[str] = ()
    ) -> AsyncIterator[bytes]:
        """A live recording as length-delimited protobuf; its end record counts the recorded exchanges.

        Args:
            headers: further header names whose values are not recorded.

        Raises:
            InvalidRequestError: too many are running.
        """
        if len(self._running - {self._configured}) >= _MAX_LIVE:
            raise InvalidRequestError(f"{_MAX_LIVE} recordings are made already; wait for one to end")
        pipe = _Pipe(self._config.max_buffer_mb * _MB)
        cleaning = self._cleaning(pseudonymise=pseudonymise, headers=headers)
        rendering = Rendering("protobuf", cleaning, base=time.monotonic())
        recording = Recording(self.capture, pipe.put, sample=sample, rendering=rendering)
        return self._live(recording, pipe, seconds, header(rfc3339(datetime.now(UTC)), pseudonymised=pseudonymise))

    async def _live(self, recording: Recording, pipe: "_Pipe", seconds: float, head: Record) -> AsyncIterator[bytes]:
        self._begin(recording)
        try:
            yield written([head], "protobuf")
            async for exchange in pipe.until(seconds, self._stopping):
                yield exchange
            await self._end(recording)
            for exchange in pipe.rest():
                yield exchange
            note = f"{recording.recorded} recorded, {recording.not_recorded} left out"
            yield written([Record(end=End(by=End.CUT, note=note))], "protobuf")
        finally:
            # The client may have disconnected.
            if recording in self._running:
                self._running.discard(recording)
                recording.detach()

    def _begin(self, recording: Recording) -> None:
        self._running.add(recording)
        recording.start()

    async def _end(self, recording: Recording) -> None:
        if recording in self._running:
            self._running.discard(recording)
            recording.detach()
        await asyncio.to_thread(recording.wait, _STOP_SECONDS)

    def _cleaning(self, *, pseudonymise: bool, headers: Iterable[str] = ()) -> CleaningSettings:
        return CleaningSettings(
            redact=self._redact,
            headers=self._headers | {name.lower() for name in headers},
            identity_headers=self._identity_headers,
            pseudonym_key=self._key if pseudonymise else b"",
        )

    def _folder(self) -> FolderSettings:
        config = self._config
        return FolderSettings(
            directory=self._directory,
            format=config.format,
            files=config.files,
            max_file_bytes=config.max_file_mb * _MB,
            max_total_bytes=config.max_total_mb * _MB,
            pseudonymised=config.pseudonymise,
        )


class _Pipe:
    """A queue from the recording's thread to a coroutine, bounded in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._max_bytes = max_bytes
        self._put_bytes = 0
        self._got_bytes = 0

    def put(self, exchange: bytes, _started_at: datetime) -> bool:
        """Called by the thread, which alone counts what was put."""
        if self._put_bytes - self._got_bytes + len(exchange) > self._max_bytes:
            return False
        self._put_bytes += len(exchange)
        self._loop.call_soon_threadsafe(self._queue.put_nowait, exchange)
        return True

    async def until(self, seconds: float, stopping: asyncio.Event) -> AsyncIterator[bytes]:
        """The exchanges that arrive within that time, or until all recordings stop."""
        deadline = self._loop.time() + seconds
        stopped = asyncio.create_task(stopping.wait())
        try:
            while (left := deadline - self._loop.time()) > 0 and not stopped.done():
                getting = asyncio.create_task(self._queue.get())
                try:
                    await asyncio.wait({getting, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not getting.done():
                        getting.cancel()
                if getting.done() and not getting.cancelled():
                    yield self._counted(getting.result())
        finally:
            stopped.cancel()

    def rest(self) -> list[bytes]:
        return [self._counted(self._queue.get_nowait()) for _ in range(self._queue.qsize())]

    def _counted(self, exchange: bytes) -> bytes:
        self._got_bytes += len(exchange)
        return exchange
