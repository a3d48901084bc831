"""A text as words and pairs of neighbouring words: what the learned decisions read. Pure."""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from semrouter_memory.language.scripts import CJK_RANGE

_LETTER = rf"[^\W\d_{CJK_RANGE}]"
_TOKEN = re.compile(rf"{_LETTER}+(?:'{_LETTER}+)?|[{CJK_RANGE}]|\d+|[?!:.,;\"]|\n")
_FULL_WIDTH = str.maketrans("’‘？！：。，；“”", "''?!:.,;\"\"")
_FIRST = 3


# A message is read again for each of its sentences, and for the turn after it.
@lru_cache(64)
def tokens(text: str) -> tuple[str, ...]:
    """Lower-cased words, single Chinese characters and marks; every number is one token."""
    found = _TOKEN.findall(text.translate(_FULL_WIDTH).lower().strip())
    return tuple("0" if token.isdigit() else token for token in found)


def ngrams(found: Sequence[str]) -> Iterator[str]:
    """Each token, each pair of neighbours with the text's ends, and the first tokens as such."""
    framed = ["^", *found, "$"]
    yield from found
    yield from (f"{one} {other}" for one, other in itertools.pairwise(framed))
    yield from (f"first {token}" for token in found[:_FIRST])
