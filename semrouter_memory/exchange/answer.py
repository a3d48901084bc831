"""The answer side of an exchange: which answers are read, and reading them through their content encoding."""

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import Answer, AnswerReader
from semrouter_memory.codec.encoding import Decoder, decoder_for
from semrouter_memory.errors import BodyError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import Reason

_FRAMING = 16
"""How much larger than its text a stream may be: a token of a few bytes travels in an event of two hundred."""

_MAX_CODING_CHARS = 32
_CODING_SIGNS = frozenset(" ,._-")

_SLICE_BYTES = 64 * 1024


class AnswerPipeline:
    """A decoder and a reader in a row. Over the bound, or with damaged data, there is no answer."""

    __slots__ = ("_decoder", "_reader")

    def __init__(self, decoder: Decoder, reader: AnswerReader) -> None:
        self._decoder = decoder
        self._reader: AnswerReader | None = reader

    def feed(self, data: bytes) -> None:
        # In slices, so that compressed data is given up before all that a large piece of it would grow to is there.
        for start in range(0, len(data), _SLICE_BYTES):
            if self._reader is None:
                return
            try:
                self._reader.feed(self._decoder.decode(data[start : start + _SLICE_BYTES]))
            except BodyError:
                self._reader = None

    @property
    def lost(self) -> Reason | None:
        """Why there is no answer although one came; None when that is not so."""
        if self._reader is None:
            return Reason.DAMAGED_ANSWER
        return Reason.ANSWER_TOO_LARGE if self._reader.over else None

    @property
    def ended(self) -> bool:
        """Same as of the reader."""
        return self._reader is not None and self._reader.ended

    def finish(self) -> Answer | None:
        return self._reader.finish() if self._reader is not None else None


def open_answer(codec: Codec, headers: Headers, *, max_bytes: int) -> AnswerPipeline | Reason:
    """A stream for the answer that these response headers announce, or why there is none to remember.

    Envoy's own replies (413, 503) come through the response phase like any other: the status tells.
    """
    reader = codec.answer_reader(headers.get("content-type"), max_bytes=max_bytes)
    if reader is None or not headers.get(":status").startswith("2"):
        return Reason.NO_ANSWER
    decoder = decoder_for(_coding(headers), max_bytes=_FRAMING * max_bytes, max_piece_bytes=max_bytes)
    return AnswerPipeline(decoder, reader) if decoder is not None else Reason.ENCODED_ANSWER


def unknown_coding(headers: Headers) -> str:
    """The content encoding, as far as it may be logged."""
    named = _coding(headers)[:_MAX_CODING_CHARS]
    return "".join(char if char.isascii() and (char.isalnum() or char in _CODING_SIGNS) else "?" for char in named)


def _coding(headers: Headers) -> str:
    return ", ".join(headers.all("content-encoding"))
