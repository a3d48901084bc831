"""Plays whole files: in order, at a speed, comparing as it goes.

Strategy: a recording has exchanges in the order in which they ended; they are played in the order in which they began, so
a window of them is read ahead. With a speed they overlap as recorded; without, they run one after the other. Only the
window is in memory.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from semrouter_memory.errors import InputFileError, MemoryServiceError
from semrouter_memory.replay.comparing import Difference, differences
from semrouter_memory.replay.playing import Player, ReplayOptions
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import RecordedExchange, changed

_WINDOW_BYTES = 64 * 1024 * 1024
_MAX_RUNNING = 256
_NOTICED_FROM_SECONDS = 2.0


@dataclass(slots=True)
class ReplayReport:
    """What was played.

    Attributes:
        damaged: files that are no recording from some point on; the exchanges before it were played.
    """

    exchanges: int = 0
    streams: int = 0
    messages: int = 0
    answers: int = 0
    differing: int = 0
    not_compared: int = 0
    unfinished: int = 0
    notices: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)


class Replayer:
    """Use `run` once.

    Args:
        on_differences: called with the differences of an exchange, right after it was played.
        on_bytes_done: called with the number of bytes of the files that were played.
        on_notice: called with a sentence about a file.
    """

    def __init__(
        self,
        options: ReplayOptions,
        *,
        on_differences: Callable[[list[Difference]], object],
        on_bytes_done: Callable[[int], object] = lambda _: None,
        on_notice: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._options = options
        self._on_differences = on_differences
        self._on_bytes_done = on_bytes_done
        self._on_notice = on_notice
        self.tally = ReplayReport()

    async def run(self) -> ReplayReport:
        """Play all files. A damaged one is played up to the damage, reported and counted.

        Raises:
            UnavailableError: the target does not answer.
        """
        async with Player(self._options) as player:
            if self._options.speed is None:
                for _, exchange in self._ordered():
                    await self._one(player, exchange, starts_at=0.0)
            else:
                await self._timed_as_recorded(player, self._options.speed)
        return self.tally

    async def _timed_as_recorded(self, player: Player, speed: float) -> None:
        loop = asyncio.get_running_loop()
        began: float | None = None
        slots = asyncio.Semaphore(_MAX_RUNNING)
        max_gap_us = self._options.max_gap_seconds * 1e6 * speed
        try:
            async with asyncio.TaskGroup() as running:
                for after_us, exchange in without_gaps(self._ordered(), max_gap_us):
                    began = loop.time() if began is None else began
                    due = began + after_us / 1e6 / speed
                    await self._wait(due - loop.time())
                    await slots.acquire()
                    task = running.create_task(self._one(player, exchange, starts_at=due))
                    task.add_done_callback(lambda _: slots.release())
        except* MemoryServiceError as failed:
            raise failed.exceptions[0] from None

    async def _wait(self, seconds: float) -> None:
        if seconds > _NOTICED_FROM_SECONDS:
            self._on_notice(f"waiting {seconds:.0f} s")
        await asyncio.sleep(max(0.0, seconds))

    async def _one(self, player: Player, exchange: RecordedExchange, *, starts_at: float) -> None:
        played = await player.play(exchange, starts_at=starts_at)
        found = differences(exchange, played, level=self._options.level)
        self._count(exchange, found)
        self._on_bytes_done(exchange.nbytes)
        if found:
            self._on_differences(found)

    def _count(self, exchange: RecordedExchange, found: list[Difference]) -> None:
        records, tally = exchange.records, self.tally
        tally.exchanges += 1
        tally.streams += sum(record.HasField("begin") for record in records)
        tally.messages += sum(record.HasField("request") for record in records)
        tally.answers += sum(record.HasField("response") for record in records)
        tally.differing += bool(found)
        tally.unfinished += not exchange.whole
        tally.not_compared += any(record.HasField("begin") and record.begin.answers_unknown for record in records)

    def _warn(self, notice: str) -> None:
        self.tally.notices.append(notice)
        self._on_notice(notice)

    def _ordered(self) -> Iterator[tuple[int, RecordedExchange]]:
        """(when it began, exchange), by when, as far as the window reaches."""
        window: list[tuple[int, int, RecordedExchange]] = []
        held = 0
        for number, (starts_us, exchange) in enumerate(self._timed()):
            heapq.heappush(window, (starts_us, number, exchange))
            held += exchange.nbytes
            while held > _WINDOW_BYTES:
                first, _, earliest = heapq.heappop(window)
                held -= earliest.nbytes
                yield first, earliest
        yield from ((starts_us, exchange) for starts_us, _, exchange in sorted(window))

    def _timed(self) -> Iterator[tuple[int, RecordedExchange]]:
        """Exchanges with times on one line: by the files' own clocks, or one file after the other where they say none."""
        zero: datetime | None = None
        end_us = base_us = 0
        for path in self._options.files:
            base_us = end_us
            for exchange in self._exchanges(path):
                started = _time(exchange.started_at)
                if started is not None:
                    zero = zero or started
                    base_us = round((started - zero).total_seconds() * 1e6)
                starts_us = base_us + min(record.time_us for record in exchange.records)
                end_us = max(end_us, base_us + max(record.time_us for record in exchange.records))
                yield starts_us, exchange

    def _exchanges(self, path: Path) -> Iterator[RecordedExchange]:
        try:
            yield from exchanges_in_file(path, self._warn, note=self._on_notice)
        except InputFileError as error:
            self.tally.damaged.add(str(path))
            self._on_notice(str(error))


def without_gaps(
    exchanges: Iterable[tuple[int, RecordedExchange]], max_gap_us: float
) -> Iterator[tuple[float, RecordedExchange]]:
    """(microseconds after the first one, exchange), with every pause cut to `max_gap_us`."""
    now_us = 0.0
    before_us: int | None = None
    for group in _overlapping(exchanges):
        moved: dict[int, float] = {}
        for at_us in sorted({at_us for starts_us, exchange in group for at_us in _times(starts_us, exchange)}):
            now_us += 0 if before_us is None else min(at_us - before_us, max_gap_us)
            before_us, moved[at_us] = at_us, now_us
        for starts_us, exchange in group:
            first_us = min(record.time_us for record in exchange.records) - moved[starts_us]
            records = (
                changed(record, time_us=round(first_us + moved[at_us]))
                for record, at_us in zip(exchange.records, _times(starts_us, exchange), strict=True)
            )
            yield moved[starts_us], replace(exchange, records=tuple(records))


def _overlapping(exchanges: Iterable[tuple[int, RecordedExchange]]) -> Iterator[list[tuple[int, RecordedExchange]]]:
    """Groups of exchanges that overlap in time, within the window."""
    group: list[tuple[int, RecordedExchange]] = []
    end_us = held = 0
    for starts_us, exchange in exchanges:
        if group and (starts_us > end_us or held > _WINDOW_BYTES):
            yield group
            group, held = [], 0
        group.append((starts_us, exchange))
        held += exchange.nbytes
        end_us = max(end_us, *_times(starts_us, exchange))
    if group:
        yield group


def _times(starts_us: int, exchange: RecordedExchange) -> list[int]:
    first_us = min(record.time_us for record in exchange.records)
    return [starts_us + record.time_us - first_us for record in exchange.records]


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None
