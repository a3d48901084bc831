"""Fuzzed bytes as decisions: which of several, how long, what. Whatever the bytes are, they are an input."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Tape:
    """Takes values from the front of some bytes; from an exhausted tape come zeros and nothing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        taken = self.take(1)
        return taken[0] if taken else 0

    def yes(self) -> bool:
        return bool(self.byte() & 1)

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.byte() % len(choices)]

    def size(self) -> int:
        """Two bytes, big end first."""
        return self.byte() << 8 | self.byte()

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data))


def sized(data: bytes) -> bytes:
    """What `Tape.size` and `Tape.take` read back."""
    return len(data).to_bytes(2, "big") + data


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces of that many bytes; 0: in one."""
    step = size or max(1, len(data))
    return (data[start : start + step] for start in range(0, len(data), step))
