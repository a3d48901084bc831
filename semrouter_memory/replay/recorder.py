"""One running recording: a thread that renders captured exchanges and writes them to an output."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.capture import Capture, RawExchange
from semrouter_memory.replay.rendering import Renderer, Rendering

_log = structlog.get_logger("semrouter_memory.replay")


class Output(Protocol):
    """Writes rendered exchanges, called by the recording's thread."""

    def __call__(self, exchange: bytes, started_at: datetime, /) -> bool:
        """Whether it was written. Raises: InputFileError, when no further one can be."""
        ...


@dataclass(slots=True)
class Counts:
    """How many exchanges of the sample were recorded, and why the recording failed."""

    recorded: int = 0
    left_out: int = 0
    failed: str = ""


class Recording:
    """Runs from `start` until `detach`.

    Args:
        sample: share of the exchanges.
        output: an error that it raises ends the recording and is logged once.
    """

    def __init__(self, capture: Capture, output: Output, *, sample: float, rendering: Rendering) -> None:
        self._capture = capture
        self._output = output
        self._sample = sample
        self._renderer = Renderer(rendering)
        self._queue: queue.SimpleQueue[tuple[RawExchange, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
        self.counts = Counts()

    @property
    def sample(self) -> float:
        return self._sample

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
        self.counts.left_out += 1
        if self.counts.left_out == 1:
            _log.warning("Exchanges are left out of the recording: too large, or too many at a time")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            exchange, release = item
            try:
                self._write(exchange)
            except Exception as error:  # noqa: BLE001 - the next exchange may succeed
                self.counts.left_out += 1
                _log.error("An exchange could not be recorded", error=type(error).__name__)
            finally:
                release()
        self._renderer.close()

    def _write(self, exchange: RawExchange) -> None:
        if self.counts.failed:
            self.counts.left_out += 1
            return
        data = self._renderer.render(exchange)
        try:
            taken = self._output(data, exchange.started_at)
        except InputFileError as error:
            self.counts.left_out += 1
            # It names a file or directory, never content.
            self.counts.failed = str(error)
            _log.error("Recording stopped", error=str(error))
            return
        if taken:
            self.counts.recorded += 1
        else:
            self.left_out()
