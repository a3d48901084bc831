"""Sends a file of memories in parts that one request may bring, and adds up what became of its lines."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import Json

PART_LINES = 200
PART_BYTES = 4 * 1024 * 1024
MAX_ERRORS = 100

Send = Callable[[bytes], dict[str, Json]]


def import_file(file: Path, send: Send, console: Console) -> dict[str, Json]:
    """Send the file's lines, in order, and return the report; its errors name the file's own line numbers.

    Raises:
        InvalidRequestError: the file cannot be read.
    """
    with _opened(file) as lines:
        total = None if str(file) == "-" else file.stat().st_size
        return _sent(
            lines, send, _progress(console, DownloadColumn()), "importing", total, size=lambda part: sum(map(len, part))
        )


def import_lines(
    lines: Iterable[bytes], send: Send, console: Console, *, description: str, total: int
) -> dict[str, Json]:
    """Same, of lines that another server exports; `total` is their number."""
    return _sent(lines, send, _progress(console, MofNCompleteColumn()), description, total, size=len)


def _sent(
    lines: Iterable[bytes],
    send: Send,
    progress: Progress,
    description: str,
    total: int | None,
    *,
    size: Callable[[list[bytes]], int],
) -> dict[str, Json]:
    summary: dict[str, Json] = {"lines": 0, "imported": 0, "skipped": 0, "refused": 0, "errors": []}
    before = 0
    with progress:
        task = progress.add_task(description, total=total)
        for part in _parts(lines):
            report = send(b"".join(part))
            for name in ("lines", "imported", "skipped", "refused"):
                summary[name] += report[name]
            free = MAX_ERRORS - len(summary["errors"])
            summary["errors"] += [{**error, "line": error["line"] + before} for error in report["errors"][:free]]
            before += len(part)
            progress.advance(task, size(part))
    return summary


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if len(part) >= PART_LINES or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise InvalidRequestError(f"cannot read {file}: {error.strerror}") from None
    with opened:
        yield opened


def _progress(console: Console, counted: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
