"""Content encodings of bodies: one stateful decoder for a whole body, fed as the bytes come, and encoding it again.

A stream that was cut simply ends. What follows the end of a zlib or zstd stream is ignored, unless it is a further gzip
member or zstd frame; the brotli library takes it for damage. Damaged data and output beyond the bound raise `BodyError`.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import brotli

from semrouter_memory.errors import BodyError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_NO_CODING = ("", "identity")
_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""A frame, or one that is skipped (RFC 8878, 3.1)."""
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
"""8 MB, what a server may make a client hold (RFC 9659, 3)."""
_ZLIB_HEADER_BYTES = 2
_MAX_CODINGS = 3
"""One is usual, a proxy may add a second; a header has room for thousands, each with a window of its own."""


class Decoder(Protocol):
    def decode(self, data: bytes) -> bytes:
        """The bytes that this piece adds.

        Raises:
            BodyError: the data is damaged, or more came out than the bound allows. The decoder is then at its end.
        """


def decoder_for(content_encoding: str, *, max_bytes: int, max_piece_bytes: int | None = None) -> Decoder | None:
    """The decoder for that header's value, codings undone in reverse order.

    Args:
        max_bytes: bound on what compressed data may grow to; data that is not compressed cannot grow.
        max_piece_bytes: bound on what one call of `decode` may give; None: only the other one.

    Returns:
        None when one of the codings is unknown, or there are more than any server applies.
    """
    codings = [coding for part in content_encoding.split(",") if (coding := part.strip().lower()) not in _NO_CODING]
    makers = [make for coding in reversed(codings) if (make := _DECODERS.get(coding)) is not None]
    if len(makers) < len(codings) or len(codings) > _MAX_CODINGS:
        return None
    return _Chain([make(_Budget(max_bytes, max_piece_bytes or max_bytes)) for make in makers])


def encoded(data: bytes, content_encoding: str) -> bytes:
    """The body in that encoding; codings that have no decoder here change nothing."""
    for coding in content_encoding.split(","):
        data = _ENCODERS.get(coding.strip().lower(), bytes)(data)
    return data


class _Chain:
    """Decoders in a row, the one for the last coding first; none at all for data that is not compressed."""

    def __init__(self, decoders: Sequence[Decoder]) -> None:
        self._decoders = decoders

    def decode(self, data: bytes) -> bytes:
        for decoder in self._decoders:
            data = decoder.decode(data)
        return data


class _Budget:
    """The output that is still allowed: of the whole body, and of the piece under way."""

    def __init__(self, max_bytes: int, max_piece_bytes: int) -> None:
        self._left = max_bytes
        self._max_piece_bytes = max_piece_bytes
        self.left = 0

    def begin_piece(self) -> None:
        self.left = min(self._left, self._max_piece_bytes)

    def spend(self, output: bytes) -> bytes:
        self._left -= len(output)
        self.left -= len(output)
        if self.left < 0:
            raise BodyError("the decoded body is larger than the bound")
        return output


class _Decompressor(Protocol):
    """One stream, as zlib and zstd have it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Format(NamedTuple):
    """A format of one stream, or of several in a row.

    Attributes:
        head_bytes: how many of a stream's first bytes `start` and `follows` need.
        start: begins the stream with that head.
        follows: whether those bytes begin another stream, behind the end of one.
    """

    head_bytes: int
    start: Callable[[bytes], _Decompressor]
    follows: Callable[[bytes], object]


class _Streams:
    """Decodes one stream after the other; what begins none ends the body."""

    def __init__(self, form: _Format, budget: _Budget) -> None:
        self._format = form
        self._budget = budget
        self._stream: _Decompressor | None = None
        self._is_first = True
        self._head: bytes | None = b""
        """What there is of the next stream; None at the end of the body."""

    def decode(self, data: bytes) -> bytes:
        self._budget.begin_piece()
        output = b""
        try:
            while data and (stream := self._stream or self._next(data)) is not None:
                data, self._head = (self._head or b"") + data, b""
                # One byte more than allowed tells that there is more; 0 would mean no limit.
                output += self._budget.spend(stream.decompress(data, self._budget.left + 1))
                self._stream, data = (None, stream.unused_data) if stream.eof else (stream, b"")
        except (zlib.error, zstd.ZstdError):
            raise BodyError("the body's compressed data is damaged") from None
        return output

    def _next(self, data: bytes) -> _Decompressor | None:
        """The stream that begins here; None: it has not begun, or none does."""
        if self._head is None:
            return None
        head = self._head + data
        if len(head) < self._format.head_bytes:
            self._head = head
            return None
        if not self._is_first and not self._format.follows(head):
            self._head = None
            return None
        self._is_first = False
        return self._format.start(head)


def _is_zlib(head: bytes) -> bool:
    """Compression method 8 and a header divisible by 31 (RFC 1950, 2.2)."""
    return head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head[:_ZLIB_HEADER_BYTES], "big") % 31 == 0


_GZIP_MEMBERS = _Format(2, lambda _: zlib.decompressobj(_GZIP), lambda head: head.startswith(_GZIP_MAGIC))
# zlib's format by the standard, raw deflate by what some servers send.
_DEFLATE_STREAM = _Format(
    _ZLIB_HEADER_BYTES, lambda head: zlib.decompressobj(_ZLIB if _is_zlib(head) else _RAW_DEFLATE), lambda _: False
)
_ZSTD_FRAMES = _Format(4, lambda _: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), _ZSTD_MAGIC.match)


class _Brotli:
    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._stream = brotli.Decompressor()

    def decode(self, data: bytes) -> bytes:
        self._budget.begin_piece()
        output = b""
        try:
            while data or not self._stream.can_accept_more_data():
                # The limit may be exceeded by a part of the decoder's window; the budget is exact.
                output += self._budget.spend(self._stream.process(data, output_buffer_limit=self._budget.left + 1))
                data = b""
        except brotli.error:
            raise BodyError("the body's compressed data is damaged") from None
        return output


_DECODERS: dict[str, Callable[[_Budget], Decoder]] = {
    "gzip": partial(_Streams, _GZIP_MEMBERS),
    "x-gzip": partial(_Streams, _GZIP_MEMBERS),
    "deflate": partial(_Streams, _DEFLATE_STREAM),
    "br": _Brotli,
    "zstd": partial(_Streams, _ZSTD_FRAMES),
}

_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "x-gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
