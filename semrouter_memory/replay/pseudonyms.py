"""Replaces words by pseudonyms: the same for the same word, and as long in bytes. Pure.

Strategy: a keyed digest of the word (case folded) says which letters stand for its letters; upper case, digits and
Chinese characters stay of their kind. So texts keep their shape, a word that is cut in two by a stream's pieces needs
no care once the pieces are joined, and words cannot be looked up without the key. Ids get a short name of their own.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from functools import lru_cache

from semrouter_memory.language.scripts import CJK_RANGE

_WORD = re.compile(rf"[{CJK_RANGE}]|[^\W_{CJK_RANGE}]+")
_NUMBER = re.compile(r"\d+")
_KEPT_WORDS = 65_536

_ASCII = 0x80
_TWO_BYTES = 0x800
_THREE_BYTES = 0x10000


class Pseudonyms:
    """Gives the pseudonyms of one key.

    Args:
        key: its holder can check whether a word was a certain one.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._word: Callable[[str], str] = lru_cache(_KEPT_WORDS)(self._made)

    def text(self, text: str) -> str:
        """The text with other words; what is between them stays."""
        return _WORD.sub(lambda match: self._word(match.group()), text)

    def number(self, literal: str) -> str:
        """A number of JSON with other digits, still a number of JSON."""
        return _NUMBER.sub(lambda match: self._word(match.group()), literal)

    def identity(self, value: str) -> str:
        """A name for an id; "" stays "", which means that there is none."""
        return f"p{self._digest('id', value).hex()[:12]}" if value else ""

    def _made(self, word: str) -> str:
        folded = word.casefold()
        digest = self._digest("word", folded)
        while len(digest) < 2 * len(word):
            digest += self._digest("more", f"{len(digest)}{folded}")
        pairs = (int.from_bytes(digest[2 * index : 2 * index + 2], "big") for index in range(len(word)))
        made = "".join(_like(char, number) for char, number in zip(word, pairs, strict=True))
        # "007" must not become a number that JSON does not know, nor "12" one that begins with zero.
        return _leading(word, made) if word.isdigit() else made

    def _digest(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self._key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)


def _leading(word: str, made: str) -> str:
    if word[0] == "0":
        return "0" + made[1:]
    return "7" + made[1:] if made[0] == "0" else made


def _like(char: str, number: int) -> str:
    """A character of the same kind and with as many bytes in UTF-8."""
    code = ord(char)
    if char in "0123456789":
        return chr(0x30 + number % 10)
    if code < _ASCII:
        return chr((0x41 if char.isupper() else 0x61) + number % 26)
    if code < _TWO_BYTES:
        return chr(0xE0 + number % 0x16)
    if code < _THREE_BYTES:
        return chr(0x4E00 + number % 0x5000)
    return chr(0x20000 + number % 0xA000)
