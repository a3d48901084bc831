"""Which memories the model can read in the request anyway: repeating them costs tokens and says nothing. Pure.

Strategy: texts can be megabytes and memories are a sentence, so the texts are not normalised. A memory's longest word is
searched for, and only those of its surroundings that have its other words too are compared, in the memory's voice: "My
budget is $10,000" in the conversation is the memory "User's budget is $10,000".
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.language.words import words

MAX_SCANNED_CHARS = 4_000_000
_MAX_OCCURRENCES = 32
"""In one text."""
_MAX_WINDOWS = 1_000
_MAX_COMPARED = 32
"""In all texts together: comparing one takes 0.1 ms, and all other requests wait meanwhile."""
# White space, punctuation and "I am" for "User is" make a statement a little longer or shorter.
_SLACK_CHARS = 48
_VOICED = frozenset({"user", "user's", "is", "has", "was", "does", "would", "will"})
_ASKING = frozenset({"do", "doe", "did", "don't", "doesn't", "didn't", "if", "whether"})
"""Words, as they are normalised, after which a statement is a question."""
_MIN_PLURAL = 4


class VisibleTexts:
    """The texts of one request. Prepared at the first question, since most requests ask none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._lowered: tuple[str, ...] | None = None

    def contain(self, content: str) -> bool:
        """Whether one of the texts states the memory, whatever its case, white space, punctuation and person."""
        telling = _telling(content)
        if not telling:
            return False
        reach = len(content) + _SLACK_CHARS
        windows = (
            text[max(0, at - reach) : at + reach] for text in self._prepared() for at in _occurrences(telling[-1], text)
        )
        near = (window for window in islice(windows, _MAX_WINDOWS) if all(word in window for word in telling))
        compared = list(islice(near, _MAX_COMPARED))
        if not compared:
            return False
        wanted = _normalised(content)
        return any(_states(_normalised(window), wanted) for window in compared)

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


@lru_cache(4_096)
def _telling(content: str) -> tuple[str, ...]:
    """The words by which a memory is found in a text, the longest last."""
    return tuple(sorted({_stem(word) for word in _unvoiced(content)}, key=lambda word: (len(word), word)))


def _unvoiced(content: str) -> Iterator[str]:
    """Words that a statement has in whatever person it is made: neither "user" nor the verbs that change with it."""
    for word in words(content):
        said = word.removeprefix("用户的").removeprefix("用户")
        if said and said not in _VOICED:
            yield said


def _occurrences(anchor: str, text: str) -> Iterator[int]:
    at = text.find(anchor)
    for _ in range(_MAX_OCCURRENCES):
        if at < 0:
            return
        yield at
        at = text.find(anchor, at + len(anchor))


def _states(text: str, wanted: str) -> bool:
    """Whether it is said there, and not only asked: "Do I live in Berlin?" has all its words."""
    at = text.find(wanted)
    while at >= 0:
        if text[:at].rpartition(" ")[2] not in _ASKING:
            return True
        at = text.find(wanted, at + 1)
    return False


def _normalised(text: str) -> str:
    """Words in the memory's voice between spaces, without a plural or third person's "s" ("lives" is "live")."""
    return f" {' '.join(_stem(word) for word in words(to_third_person(text)))} "


def _stem(word: str) -> str:
    return word[:-1] if len(word) >= _MIN_PLURAL and word.endswith("s") and not word.endswith("ss") else word
