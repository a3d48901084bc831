"""Which of the memories found are given to the model, and in what order.

Strategy: cheap tests first. The order is by relevance, ties by id, so that the same hits always make the same block.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from semrouter_memory.lexical.words import words
from semrouter_memory.model import Hit, Memory, RecallOptions
from semrouter_memory.recall.outdated import outdated_episodes
from semrouter_memory.recall.overlap import WordOverlap
from semrouter_memory.recall.visible import VisibleTexts

_SAYS_NOTHING = frozenset({"user", "user's", "the", "a", "an", "that", "is", "are", "was", "has", "have"})


def choose(
    hits: Iterable[Hit],
    options: RecallOptions,
    *,
    query: str,
    visible: Sequence[str],
    is_deleted: Callable[[Memory], bool],
    cost: Callable[[Hit], int],
    budget: int,
) -> tuple[Hit, ...]:
    """The hits to render, best first.

    Args:
        hits: what searches found, in any order; a memory found twice counts with its better score.
        options: limit, threshold (a hit on it is kept) and types.
        query: what was searched for.
        visible: every text that the model sees anyway.
        is_deleted: whether a memory was deleted, though the store may still show it.
        cost: what rendering a hit takes of the budget. One that no longer fits leaves room for a smaller one.
        budget: bound on the sum of the costs.
    """
    texts = VisibleTexts(visible)
    overlap = WordOverlap(query)
    said: set[tuple[str, ...]] = set()
    chosen: list[Hit] = []
    known = tuple(hits)
    found = tuple(_above_the_cut(known, options))
    outdated = outdated_episodes(found, known, is_deleted)
    for hit in found:
        if len(chosen) >= options.limit:
            break
        statement = _statement(hit.memory.content)
        if statement in said or hit.memory.id in outdated or not overlap.allows(hit.memory.content):
            continue
        if is_deleted(hit.memory) or texts.contain(hit.memory.content):
            continue
        if (needed := cost(hit)) > budget:
            continue
        budget -= needed
        said.add(statement)
        chosen.append(hit)
    return tuple(chosen)


def _above_the_cut(hits: Iterable[Hit], options: RecallOptions) -> Iterator[Hit]:
    for hit in sorted(hits, key=lambda hit: (-hit.relevance, hit.memory.id)):
        if hit.relevance < options.threshold:
            return
        if options.types is None or hit.memory.type in options.types:
            yield hit


def _statement(content: str) -> tuple[str, ...]:
    """What a memory says: two with the same statement differ in articles, case or punctuation at most."""
    return tuple(word for word in words(content) if word not in _SAYS_NOTHING) or (content,)
