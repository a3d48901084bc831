"""Which episodes tell of something that has changed since. Pure.

Strategy: an episode says what held on its day, and stays as it is when a fact in it is replaced. A fact keeps the turns
in which it was said otherwise; beside such a fact, an episode of these turns would only mislead, and yields to it. Unless
the fact was said in the same session: then the episode tells the new value itself.
"""

from collections.abc import Callable, Sequence

from semrouter_memory.model import Hit, Memory, MemoryType


def outdated_episodes(
    found: Sequence[Hit], known: Sequence[Hit], is_deleted: Callable[[Memory], bool]
) -> frozenset[str]:
    """The ids of the episodes that a newer fact makes misleading.

    Args:
        found: hits that may be given to the model.
        known: all hits: a fact may be a little too far from the question, and still be about the same.
        is_deleted: whether a memory was deleted, though the store may still show it.
    """
    episodes = [hit.memory for hit in found if hit.memory.type is MemoryType.EPISODIC]
    if not episodes:
        return frozenset()
    facts = [hit.memory for hit in known if hit.memory.metadata.get("replaces") and not is_deleted(hit.memory)]
    return frozenset(episode.id for episode in episodes if any(_changed(episode, fact) for fact in facts))


def _changed(episode: Memory, fact: Memory) -> bool:
    told = frozenset(episode.ids("turn_ids"))
    return not told.isdisjoint(fact.ids("replaces")) and told.isdisjoint(fact.ids("turn_ids"))
