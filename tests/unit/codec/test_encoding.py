"""Decoding of compressed answers: whole, byte by byte, cut, damaged, followed by garbage, and as bombs."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd

from semrouter_memory.codec.encoding import Decoder, decoder_for
from semrouter_memory.errors import BodyError

TEXT = 'data: {"choices":[{"delta":{"content":"Grüezi 🏔 mitenand"}}]}\n\n'.encode() * 50


def _raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def _brotli(data: bytes) -> bytes:
    compressed = brotli.compress(data)
    assert isinstance(compressed, bytes)
    return compressed


_FORMATS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "any case": (" GZip ", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate, level 0": ("deflate", lambda data: zlib.compress(data, 0)),
    "raw deflate": ("deflate", _raw_deflate),
    "br": ("br", _brotli),
    "zstd": ("zstd", zstd.compress),
    "zstd, then gzip": ("zstd, gzip", lambda data: gzip.compress(zstd.compress(data))),
    "gzip, then br": ("gzip, br", lambda data: _brotli(gzip.compress(data))),
    "br, then deflate": ("br,identity,,deflate", lambda data: zlib.compress(_brotli(data))),
}
_COMPRESSED = {name: made for name, made in _FORMATS.items() if name not in ("none", "identity")}
formats = pytest.mark.parametrize(("coding", "compress"), _FORMATS.values(), ids=_FORMATS.keys())
compressed_formats = pytest.mark.parametrize(("coding", "compress"), _COMPRESSED.values(), ids=_COMPRESSED.keys())


def decoder(coding: str, *, max_bytes: int = 1_000_000) -> Decoder:
    found = decoder_for(coding, max_bytes=max_bytes)
    assert found is not None
    return found


def decoded_bytewise(coding: str, data: bytes) -> bytes:
    one = decoder(coding)
    return b"".join(one.decode(bytes((byte,))) for byte in data)


@formats
def test_whole(coding: str, compress: Callable[[bytes], bytes]) -> None:
    assert decoder(coding).decode(compress(TEXT)) == TEXT


@formats
def test_byte_by_byte(coding: str, compress: Callable[[bytes], bytes]) -> None:
    assert decoded_bytewise(coding, compress(TEXT)) == TEXT


@formats
def test_empty_chunks_add_nothing(coding: str, compress: Callable[[bytes], bytes]) -> None:
    one = decoder(coding)
    assert one.decode(b"") + one.decode(compress(TEXT)) + one.decode(b"") == TEXT


@compressed_formats
def test_cut_stream_gives_a_prefix(coding: str, compress: Callable[[bytes], bytes]) -> None:
    data = compress(TEXT)
    for at in range(len(data)):
        assert TEXT.startswith(decoder(coding).decode(data[:at]))


@pytest.mark.parametrize(
    ("coding", "compress"), [_FORMATS[name] for name in ("gzip", "deflate", "raw deflate", "zstd")]
)
@pytest.mark.parametrize("garbage", [b"\0" * 20, b"\x1f", b"\x1e\x8b", b"<html>"])
def test_garbage_after_the_end_is_ignored(coding: str, compress: Callable[[bytes], bytes], garbage: bytes) -> None:
    data = compress(TEXT) + garbage
    assert decoder(coding).decode(data) == TEXT
    assert decoded_bytewise(coding, data) == TEXT


def test_garbage_after_a_brotli_stream_is_damage_however_it_comes() -> None:
    data = _brotli(TEXT) + b"x"
    with pytest.raises(BodyError, match="damaged"):
        decoder("br").decode(data)
    with pytest.raises(BodyError, match="damaged"):
        decoded_bytewise("br", data)


def test_further_gzip_members_belong_to_the_body() -> None:
    """Some servers flush by starting a new member."""
    data = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two") + b"\0\0" + gzip.compress(b"no")
    assert decoder("gzip").decode(data) == b"one two"
    assert decoded_bytewise("gzip", data) == b"one two"


def test_further_zstd_frames_belong_to_the_body() -> None:
    skipped = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    data = zstd.compress(b"one ") + skipped + zstd.compress(b"two") + b"\0\0\0\0" + zstd.compress(b"no")
    assert decoder("zstd").decode(data) == b"one two"
    assert decoded_bytewise("zstd", data) == b"one two"


def test_a_zstd_window_that_no_server_may_ask_for_is_refused() -> None:
    """A frame's head of a few bytes could make each answer take gigabytes."""
    wide: dict[int, int] = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    stream = zstd.ZstdCompressor(options=wide)
    data = stream.compress(TEXT) + stream.flush()
    with pytest.raises(BodyError, match="damaged"):
        decoder("zstd").decode(data)


def _zlib_flushes(wbits: int, events: list[bytes]) -> list[bytes]:
    stream = zlib.compressobj(wbits=wbits)
    return [stream.compress(event) + stream.flush(zlib.Z_SYNC_FLUSH) for event in events]


def _brotli_flushes(events: list[bytes]) -> list[bytes]:
    stream = brotli.Compressor()
    return [stream.process(event) + stream.flush() for event in events]


def _zstd_flushes(events: list[bytes]) -> list[bytes]:
    stream = zstd.ZstdCompressor()
    return [stream.compress(event, mode=zstd.ZstdCompressor.FLUSH_BLOCK) for event in events]


_EVENTS = [b"data: a\n\n", b"data: b\n\n", b"data: [DONE]\n\n"]


@pytest.mark.parametrize(
    ("coding", "flushes"),
    [
        ("gzip", _zlib_flushes(31, _EVENTS)),
        ("deflate", _zlib_flushes(zlib.MAX_WBITS, _EVENTS)),
        ("br", _brotli_flushes(_EVENTS)),
        ("zstd", _zstd_flushes(_EVENTS)),
    ],
)
def test_flushed_pieces_come_at_once(coding: str, flushes: list[bytes]) -> None:
    """A server that flushes after each event is read event by event."""
    one = decoder(coding)
    assert [one.decode(piece) for piece in flushes] == _EVENTS


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_damaged_data_is_a_body_error(coding: str) -> None:
    with pytest.raises(BodyError, match="damaged"):
        decoder(coding).decode(b"this is no compressed data at all, it is a sentence")


@compressed_formats
def test_bound_is_inclusive(coding: str, compress: Callable[[bytes], bytes]) -> None:
    assert decoder(coding, max_bytes=len(TEXT)).decode(compress(TEXT)) == TEXT
    with pytest.raises(BodyError, match="bound"):
        decoder(coding, max_bytes=len(TEXT) - 1).decode(compress(TEXT))


@compressed_formats
def test_bound_counts_the_whole_body(coding: str, compress: Callable[[bytes], bytes]) -> None:
    one = decoder(coding, max_bytes=len(TEXT) - 1)
    data = compress(TEXT)
    with pytest.raises(BodyError, match="bound"):
        b"".join(one.decode(bytes((byte,))) for byte in data)


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd"])
def test_bomb_is_not_inflated(coding: str) -> None:
    """50 MB of zeros never exist: the decoder stops near the bound."""
    import tracemalloc

    bomb = _FORMATS[coding][1](bytes(50_000_000))
    one = decoder(coding, max_bytes=1000)
    tracemalloc.start()
    with pytest.raises(BodyError, match="bound"):
        one.decode(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("coding", ["compress", "gzip, dcz", "gzip;q=1", "x"])
def test_unknown_codings_have_no_decoder(coding: str) -> None:
    assert decoder_for(coding, max_bytes=100) is None


def test_data_that_is_not_compressed_is_not_bounded() -> None:
    """It cannot grow; whoever reads it has a bound."""
    assert decoder("", max_bytes=1).decode(b"abc") == b"abc"
