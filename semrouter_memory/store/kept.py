"""Shelves that are kept, within a bound of bytes: the owner not seen for the longest leaves first. Pure.

Strategy: room is made before something is put in, so the bound holds at every moment.
"""

from collections import OrderedDict
from dataclasses import dataclass

from semrouter_memory.store.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Kept:
    """A shelf that is right while its owner's generation is this one.

    Attributes:
        read_at: the loop's time before the store was read.
        unseen_writes: writes that it was carried over since somebody asked for it.
    """

    shelf: Shelf
    generation: int
    read_at: float
    unseen_writes: int = 0


class KeptShelves:
    """At most `max_bytes` of shelves, one per owner.

    Attributes:
        nbytes: what they take now.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, owner: str) -> Kept | None:
        kept = self._kept.get(owner)
        if kept is not None:
            self._kept.move_to_end(owner)
        return kept

    def put(self, owner: str, kept: Kept) -> bool:
        """Keep it in place of the owner's last one; returns False when it is larger than everything may be."""
        self.drop(owner)
        size = kept.shelf.nbytes
        if size > self._max_bytes:
            return False
        while self.nbytes + size > self._max_bytes:
            _, longest_unused = self._kept.popitem(last=False)
            self.nbytes -= longest_unused.shelf.nbytes
        self._kept[owner] = kept
        self.nbytes += size
        return True

    def drop(self, owner: str) -> None:
        kept = self._kept.pop(owner, None)
        if kept is not None:
            self.nbytes -= kept.shelf.nbytes
