"""Mutated seeds, the same on every run: what a fuzzer tries first, without its feedback."""

import random
from collections.abc import Iterator, Sequence

_TOKENS = (
    b"\x00", b"\xff", b"\n", b"\r", b"\r\n\r\n", b"data:", b"[DONE]", b'"', b"\\", b"\\u0000", b"\\ud800", b"{", b"}", b"[", b"]",
    b",", b":", b"null", b"-1", b"1e9", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1f\x8b", b'"memory_config":1', b'"content":', b'"role":"user"',
)  # fmt: skip


def mutated(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """The seeds, then so many mutations of them."""
    yield from seeds
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            _mutate(data, seeds, chance)
        yield bytes(data)


def _mutate(data: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    start, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    match chance.randrange(6):
        case 0:
            del data[start:end]
        case 1:
            data[start:start] = data[start : min(end, start + 64)]
        case 2:
            data[start:start] = chance.choice(_TOKENS)
        case 3:
            data[start : start + 1] = bytes([chance.randrange(256)])
        case 4:
            data[start:end] = chance.choice(_TOKENS)
        case _:
            other = chance.choice(seeds)
            data[start:] = other[min(start, len(other)) :]
