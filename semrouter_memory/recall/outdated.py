"""Which episodes tell of something that has changed since.

Strategy: an episode says what held on its day, and is kept as it is when a fact in it is replaced. Where the newer fact
is found as well, the old value beside it would only mislead. So an episode that has the attribute of a newer fact, most
of its other words, and not all of them, yields to it. Whoever asks for episodes alone gets them all.
"""

from collections.abc import Callable, Sequence

from semrouter_memory.model import Hit, Memory, MemoryType
from semrouter_memory.recall.words import content_words

_SAME_MATTER = 0.5
"""Share of a fact's words that an episode about the same matter has; the new value is among the others."""
_NEARLY = 0.15
"""How much less relevant the fact may be: otherwise the question is about something else in the episode."""
_ENDED = frozenset({"longer", "anymore"})
"""Said of an attribute, before its name."""


def outdated_episodes(
    found: Sequence[Hit], known: Sequence[Hit], is_deleted: Callable[[Memory], bool]
) -> frozenset[str]:
    """The ids of the episodes that a newer fact makes misleading.

    Args:
        found: hits that may be given to the model.
        known: all hits: a fact may be a little too far from the question, and still be about the same.
        is_deleted: whether a memory was deleted, though the store may still show it.
    """
    episodes = [hit for hit in found if hit.memory.type is MemoryType.EPISODIC]
    if not episodes:
        return frozenset()
    told = {hit.memory.id: frozenset(content_words(hit.memory.content)) for hit in episodes}
    facts = [hit for hit in known if hit.memory.type is not MemoryType.EPISODIC and not is_deleted(hit.memory)]
    stated = [(fact, content_words(fact.memory.content)) for fact in facts]
    return frozenset(
        episode.memory.id
        for episode in episodes
        for fact, words in stated
        if fact.memory.observed_at > episode.memory.observed_at
        and fact.relevance >= episode.relevance - _NEARLY
        and _same_matter(words, told[episode.memory.id])
    )


def _same_matter(stated: Sequence[str], told: frozenset[str]) -> bool:
    """Whether the episode tells of the attribute, which is named first, with another value."""
    attribute = next((word for word in stated if word not in _ENDED), "")
    shared = sum(word in told for word in stated)
    return attribute in told and _SAME_MATTER * len(stated) <= shared < len(stated)
