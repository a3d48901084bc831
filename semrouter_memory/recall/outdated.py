"""Which episodes tell of something that has changed since.

Strategy: an episode says what held on its day, and is kept as it is when a fact in it is replaced. Where the newer fact
is found as well, the old value beside it would only mislead. So an episode that has the attribute of a newer fact, most
of its other words, and not all of them, yields to it. Whoever asks for episodes alone gets them all.
"""

from collections.abc import Sequence

from semrouter_memory.model import Hit, MemoryType
from semrouter_memory.recall.words import content_words

_SAME_MATTER = 0.5
"""Share of a fact's words that an episode about the same matter has; the new value is among the others."""
_NEARLY = 0.15
"""How much less relevant the fact may be: otherwise the question is about something else in the episode."""
_ENDED = frozenset({"longer", "anymore"})
"""Said of an attribute, before its name."""


def outdated_episodes(hits: Sequence[Hit]) -> frozenset[str]:
    """The ids of the episodes among the hits that a newer fact among them makes misleading."""
    episodes = [hit for hit in hits if hit.memory.type is MemoryType.EPISODIC]
    facts = [hit for hit in hits if hit.memory.type is not MemoryType.EPISODIC]
    if not episodes or not facts:
        return frozenset()
    told = {hit.memory.id: frozenset(content_words(hit.memory.content)) for hit in episodes}
    stated = [(hit, content_words(hit.memory.content)) for hit in facts]
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
