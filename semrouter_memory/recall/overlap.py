"""Whether a memory has anything of a Chinese question in it. Pure.

The default model's vocabulary lacks most Chinese characters: to it, sentences that have nothing in common look alike, and
their cosine says nothing. So a Chinese question must share at least one word with a memory, whatever the cosine says.
"""

from collections.abc import Iterator

from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.words import content_runs, content_words

_PAIR = 2


class WordOverlap:
    """The words of one query; a query without Chinese characters, or without content, is not held to them."""

    def __init__(self, query: str) -> None:
        self._units = frozenset(_units(query)) if CJK.search(query) else frozenset()

    def allows(self, content: str) -> bool:
        if not self._units:
            return True
        lowered = content.lower()
        return any(unit in lowered for unit in self._units)


def _units(query: str) -> Iterator[str]:
    """Words of other scripts, and pairs of neighbouring Chinese characters: most Chinese words have two."""
    yield from (word for word in content_words(query) if not CJK.match(word))
    for run in content_runs(query):
        if len(run) < _PAIR:
            yield run
        yield from (run[at : at + _PAIR] for at in range(len(run) - 1))
