"""Memories that replaced one another.

Strategy: a memory has one successor at most and any number of predecessors, so what belongs together is a tree; its root
is what holds now. Walked as it is in the store, deleted rows included: what is shown is for the caller to say.
"""

from semrouter_memory.model import Memory, Scope
from semrouter_memory.ports import MemoryReader


async def newest(reader: MemoryReader, scope: Scope, memory: Memory) -> Memory:
    """The last of its successors that there is; itself when it has none."""
    seen = {memory.id}
    while memory.superseded_by and memory.superseded_by not in seen:
        successor = await reader.get(scope, memory.superseded_by)
        if successor is None:
            break
        seen.add(successor.id)
        memory = successor
    return memory


async def generations(reader: MemoryReader, scope: Scope, root: Memory) -> list[list[Memory]]:
    """The memory, what it replaced, what that replaced, and so on; each memory once."""
    found = [[root]]
    seen = {root.id}
    while True:
        older = await reader.predecessors(scope, [memory.id for memory in found[-1]])
        fresh = {memory.id: memory for memory in older if memory.id not in seen}
        if not fresh:
            return found
        seen.update(fresh)
        found.append(list(fresh.values()))


async def chain(reader: MemoryReader, scope: Scope, memory: Memory) -> list[Memory]:
    """The whole tree to which a memory belongs, oldest first; none before what it replaced, whatever the clock was then."""
    root = await newest(reader, scope, memory)
    found = await generations(reader, scope, root)
    said = {root.id: root.observed_at}
    for older in found[1:]:
        said |= {each.id: min(each.observed_at, said.get(each.superseded_by, each.observed_at)) for each in older}
    members = [(each, age) for age, generation in enumerate(found) for each in generation]
    ordered = sorted(members, key=lambda pair: (said[pair[0].id], -pair[1], pair[0].created_at, pair[0].id))
    return [each for each, _ in ordered]
