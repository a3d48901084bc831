"""Shelves within a bound of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.model import Scope
from semrouter_memory.store.kept import Kept, KeptShelves
from semrouter_memory.store.shelf import filled
from tests.memories import embedded, memory


def shelf(memories: int = 1, generation: int = 0) -> Kept:
    rows = [embedded(memory(Scope("alice"), f"m{n}")) for n in range(memories)]
    return Kept(filled("alice", rows), generation, 0.0)


ONE = shelf().shelf.nbytes


def test_the_owner_not_seen_for_the_longest_leaves_first() -> None:
    kept = KeptShelves(3 * ONE)
    for owner in "abc":
        kept.put(owner, shelf())
    kept.find("a")
    kept.put("d", shelf())
    assert [owner for owner in "abcd" if kept.find(owner)] == ["a", "c", "d"]


def test_a_shelf_takes_the_place_of_its_owners_last_one() -> None:
    kept = KeptShelves(2 * ONE)
    kept.put("a", shelf(generation=1))
    kept.put("b", shelf())
    kept.put("a", shelf(generation=2))
    found = kept.find("a")
    assert found is not None
    assert found.generation == 2
    assert kept.find("b") is not None
    assert kept.nbytes == 2 * ONE


def test_what_is_larger_than_everything_may_be_is_not_kept() -> None:
    kept = KeptShelves(ONE)
    kept.put("a", shelf())
    assert not kept.put("b", shelf(memories=50))
    assert kept.find("a") is not None
    assert not kept.put("a", shelf(memories=50))
    assert len(kept) == kept.nbytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 30) | st.none())), st.integers(0, 4 * ONE))
def test_the_bound_holds_whatever_comes(steps: list[tuple[str, int | None]], bound: int) -> None:
    kept = KeptShelves(bound)
    for owner, memories in steps:
        if memories is None:
            kept.drop(owner)
        else:
            kept.put(owner, shelf(memories))
        there = [found for each in "abcde" if (found := kept.find(each))]
        assert kept.nbytes == sum(each.shelf.nbytes for each in there) <= bound
        assert len(kept) == len(there)
