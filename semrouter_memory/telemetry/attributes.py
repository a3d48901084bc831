"""What spans may say: counts, ids, reasons, durations and names of models. Never a text that somebody wrote.

Names follow the OpenTelemetry conventions for generative AI where these have one. They are still in development and change
with the package that holds them, so they stand here and are not imported.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

OPERATION, ERROR = "gen_ai.operation.name", "error.type"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
CONVERSATION, RESPONSE_ID = "gen_ai.conversation.id", "gen_ai.response.id"
RECORDS, PROVIDER = "gen_ai.memory.record.count", "gen_ai.provider.name"
MAX_TOKENS, TEMPERATURE = "gen_ai.request.max_tokens", "gen_ai.request.temperature"
SERVER, PORT = "server.address", "server.port"
OWN = "semrouter.memory."
"""Prefix of our own attributes."""
MAX_CHARS = 128
"""Of a value that a client or a server chose."""

Attributes = dict[str, AttributeValue]
_P = ParamSpec("_P")
_S = TypeVar("_S")


def present(attributes: Mapping[str, str | float]) -> Attributes:
    """Without those that are not known, texts within their bound."""
    cut = {name: value[:MAX_CHARS] if isinstance(value, str) else value for name, value in attributes.items()}
    return {name: value for name, value in cut.items() if value != ""}


def mark_failed(span: Span, error: str) -> None:
    """Names the kind of error alone: a message may quote what it choked on."""
    span.set_attribute(ERROR, error)
    span.set_status(Status(StatusCode.ERROR))


def never_raising(function: Callable[Concatenate[_S, _P], None]) -> Callable[Concatenate[_S, _P], None]:
    def traced(first: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        # A span that fails must not cost a request.
        with suppress(Exception):
            function(first, *args, **kwargs)

    return traced
