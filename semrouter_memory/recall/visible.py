"""Which memories the model can read in the request anyway: repeating them costs tokens and says nothing.

Strategy: texts can be megabytes and memories are a sentence, so the texts are not normalised. A memory's longest word is
searched for, and only the surroundings of its occurrences are compared, both sides in the memory's voice: "My budget is
$10,000" in the conversation is the memory "User's budget is $10,000".
"""

from collections.abc import Iterable, Iterator, Sequence

from semrouter_memory.recall.voice import in_memory_voice
from semrouter_memory.recall.words import words

MAX_SCANNED_CHARS = 4_000_000
_MAX_OCCURRENCES = 32
# White space, punctuation and "I am" for "User is" make a statement a little longer or shorter.
_SLACK_CHARS = 48
_SPEAKER = frozenset({"user", "user's", "用户", "用户的"})
_MIN_PLURAL = 4


class VisibleTexts:
    """The texts of one request. Prepared at the first question, since most requests ask none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._lowered: tuple[str, ...] | None = None

    def contain(self, content: str) -> bool:
        """Whether one of the texts states the memory, whatever its case, white space, punctuation and person."""
        wanted = _normalised(content)
        anchor = max((word for word in _unvoiced(content) if word not in _SPEAKER), key=len, default="")
        if not wanted.strip() or not anchor:
            return False
        reach = len(content) + _SLACK_CHARS
        return any(
            wanted in _normalised(text[max(0, at - reach) : at + reach])
            for text in self._prepared()
            for at in _occurrences(anchor, text)
        )

    def _prepared(self) -> tuple[str, ...]:
        if self._lowered is None:
            self._lowered = tuple(_latest_lowered(self._texts))
        return self._lowered


def _latest_lowered(texts: Sequence[str]) -> Iterator[str]:
    left = MAX_SCANNED_CHARS
    for text in reversed(texts):
        if left <= 0:
            return
        yield text[-left:].lower()
        left -= len(text)


def _unvoiced(content: str) -> Iterable[str]:
    """The memory's words, without a Chinese subject that is written together with what is said of it."""
    return (word.removeprefix("用户的").removeprefix("用户") or word for word in words(content))


def _occurrences(anchor: str, text: str) -> Iterator[int]:
    at = text.find(anchor)
    for _ in range(_MAX_OCCURRENCES):
        if at < 0:
            return
        yield at
        at = text.find(anchor, at + len(anchor))


def _normalised(text: str) -> str:
    """Words in the memory's voice between spaces, without a plural or third person's "s" ("lives" is "live")."""
    return f" {' '.join(_stem(word) for word in words(in_memory_voice(text)))} "


def _stem(word: str) -> str:
    return word[:-1] if len(word) >= _MIN_PLURAL and word.endswith("s") and not word.endswith("ss") else word
