"""Content encodings of bodies: one stateful decoder for a whole body, fed as the bytes come, and encoding it again.

A stream that was cut simply ends. What follows the end of a zlib or zstd stream is ignored, unless it is a further gzip
member or zstd frame; the brotli library takes it for damage. Damaged data and output beyond the bound raise `BodyError`.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

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
_GZIP_MAGIC = re.compile(rb"\x1f\x8b")
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
        ...


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


class _Compressed:
    """One zlib stream of a known format, or one zstd frame.

    Args:
        decompressor: of either library.
    """

    def __init__(self, decompressor: "zlib._Decompress | zstd.ZstdDecompressor", budget: _Budget) -> None:
        self._decompressor = decompressor
        self._budget = budget

    @property
    def ended(self) -> bool:
        return self._decompressor.eof

    @property
    def rest(self) -> bytes:
        """What came after the stream's end."""
        return self._decompressor.unused_data

    def decode(self, data: bytes) -> bytes:
        if self.ended:
            return b""
        try:
            # One byte more than allowed tells that there is more; 0 would mean no limit.
            return self._budget.spend(self._decompressor.decompress(data, self._budget.left + 1))
        except (zlib.error, zstd.ZstdError):
            raise BodyError("the body's compressed data is damaged") from None


class _Members:
    """Gzip members or zstd frames, one after the other.

    Args:
        magic: matches the bytes that a member begins with.
        magic_bytes: how many these are.
    """

    def __init__(
        self, budget: _Budget, make: Callable[[], _Compressed], magic: re.Pattern[bytes], magic_bytes: int
    ) -> None:
        self._budget = budget
        self._make = make
        self._magic = magic
        self._magic_bytes = magic_bytes
        self._member: _Compressed | None = make()
        self._between = b""

    def decode(self, data: bytes) -> bytes:
        self._budget.begin_piece()
        output = b""
        while data and self._member is not None:
            if self._member.ended:
                data = self._next_member(data)
                continue
            output += self._member.decode(data)
            data = self._member.rest
        return output

    def _next_member(self, data: bytes) -> bytes:
        """Start the member that this data begins; anything else than a member ends the body."""
        data = self._between + data
        if len(data) < self._magic_bytes:
            self._between = data
            return b""
        self._between = b""
        self._member = self._make() if self._magic.match(data) else None
        return data


def _gzip(budget: _Budget) -> Decoder:
    return _Members(budget, lambda: _Compressed(zlib.decompressobj(_GZIP), budget), _GZIP_MAGIC, 2)


def _zstd(budget: _Budget) -> Decoder:
    return _Members(budget, lambda: _Compressed(zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), budget), _ZSTD_MAGIC, 4)


class _Deflate:
    """The `deflate` coding: zlib's format by the standard, raw deflate by what some servers send."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._head = b""
        self._stream: _Compressed | None = None

    def decode(self, data: bytes) -> bytes:
        self._budget.begin_piece()
        if self._stream is None:
            self._head += data
            if len(self._head) < _ZLIB_HEADER_BYTES:
                return b""
            window_bits = _ZLIB if _is_zlib(self._head) else _RAW_DEFLATE
            self._stream = _Compressed(zlib.decompressobj(window_bits), self._budget)
            data, self._head = self._head, b""
        return self._stream.decode(data)


def _is_zlib(head: bytes) -> bool:
    """Compression method 8 and a header divisible by 31 (RFC 1950, 2.2)."""
    return head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head[:_ZLIB_HEADER_BYTES], "big") % 31 == 0


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
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _zstd,
}

_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "x-gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
