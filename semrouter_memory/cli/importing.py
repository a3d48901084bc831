"""Sends a file of memories in parts that one request may bring, and adds up what became of its lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

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
    total: dict[str, Json] = {"lines": 0, "imported": 0, "skipped": 0, "refused": 0, "errors": []}
    with _opened(file) as lines, _progress(console) as progress:
        task = progress.add_task("importing", total=None if str(file) == "-" else file.stat().st_size)
        before = 0
        for part in _parts(lines):
            report = send(b"".join(part))
            for name in ("lines", "imported", "skipped", "refused"):
                total[name] += report[name]
            room = MAX_ERRORS - len(total["errors"])
            total["errors"] += [{**error, "line": error["line"] + before} for error in report["errors"][:room]]
            before += len(part)
            progress.advance(task, sum(map(len, part)))
    return total


def _parts(lines: BinaryIO) -> Iterator[list[bytes]]:
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


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
