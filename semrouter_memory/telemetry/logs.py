"""Logging for the process: structured, to stderr, in UTC, without content.

Our own lines name ids, counts, durations and reasons. Lines of libraries cannot be trusted to: they are cut to their first
line, and an exception is reduced to its type and where it was raised, because its message may quote what it choked on.
"""

import json
import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO

import orjson
import structlog

from semrouter_memory.config import TelemetryConfig
from semrouter_memory.errors import name_of

_QUIET = {
    "uvicorn": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore2": logging.WARNING,
    # Logs whole requests, prompts included, when asked for DEBUG.
    "openai": logging.WARNING,
    # Logs each failed call at ERROR, filter expressions included; the store reports its failures itself.
    "pymilvus": logging.CRITICAL,
    "asyncio": logging.WARNING,
    "grpc": logging.WARNING,
    # Logs each request twice, and names that a client made up.
    "mcp": logging.CRITICAL,
    # Names the collector's answer at every batch; the exporter's failure is said once.
    "opentelemetry": logging.CRITICAL,
}

_Event = MutableMapping[str, Any]


def configure(config: TelemetryConfig, *, stream: TextIO | None = None) -> None:
    """Route structlog and the standard library's logging into one stream (stderr), as JSON or for people."""
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_message,
    ]
    lines = _Lines(stream or sys.stderr)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _first_line, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(config)],
        )
    )
    # A line that cannot be written is given up: the standard library would print it raw, arguments, traceback and all.
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.log_level)
    for name, level in _QUIET.items():
        library = logging.getLogger(name)
        library.setLevel(max(level, root.level))
        library.handlers[:] = []
        library.propagate = True
    # Straight to the stream: through the standard library a line costs a request three times as much.
    structlog.configure(
        processors=[*shared, _renderer(config)],
        logger_factory=lambda *_: lines,
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Writes lines; one that cannot be written is given up."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


def _renderer(config: TelemetryConfig) -> structlog.typing.Processor:
    if config.log_format == "console":
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: _Event, **_: Any) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Text that is no Unicode.
        return json.dumps(event, default=repr)


def _first_line(_logger: Any, _method: str, event: _Event) -> _Event:
    """asyncio, for one, writes the repr of a task and its exception on the lines that follow."""
    event["event"] = str(event.get("event", "")).split("\n", 1)[0]
    return event


def _without_message(_logger: Any, _method: str, event: _Event) -> _Event:
    """Replaces exception information by the exception's type and the calls that led to it."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        calls = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        event["error"] = name_of(error)
        event["calls"] = calls
    return event
