"""What is kept of a text that is longer than the embedding model reads."""

import threading

import pytest

from semrouter_memory.model import Criteria, Scope
from semrouter_memory.retain.passages import SplittingWriter, beginning, fitted, reads_all
from semrouter_memory.store.in_memory import InMemoryStore
from tests.hashed import HashedEmbedder
from tests.memories import DIMENSION, embedded, memory

ALICE = Scope("alice")
FITS = reads_all(HashedEmbedder(max_passage_tokens=5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User likes tea.", "User likes tea."),
        ("User likes tea. User lives in Berlin.", "User likes tea."),
        ("To deploy: tag it; push it; wait for the build", "To deploy: tag it"),
        ("One two. Three four. Five six.", "One two. Three four."),
        ("用户 喜欢 茶。用户 住 在 柏林。", "用户 喜欢 茶。"),
        ("User eats meat unless it is a Friday", ""),
        ("User eats meat unless it is a Friday. It is good.", ""),
        ("a b\nc d\ne f", "a b\nc d"),
        ("", ""),
    ],
)
def test_whole_sentences_are_kept_and_none_is_cut(text: str, expected: str) -> None:
    assert fitted(text, FITS) == expected


@pytest.mark.parametrize("text", ["", "one two", "one two three four five six seven", "一 " * 1_000, "." * 99])
def test_a_beginning_to_compare_with_fits(text: str) -> None:
    found = beginning(text, FITS)
    assert text.startswith(found)
    assert FITS(found)


class ThreadRecorder(HashedEmbedder):
    """Records in which threads tokens were counted."""

    threads: frozenset[threading.Thread] = frozenset()

    def passage_tokens(self, text: str) -> int:
        self.threads |= {threading.current_thread()}
        return super().passage_tokens(text)


@pytest.mark.parametrize(("chars", "at_once"), [(200, True), (201, False)])
async def test_only_a_short_memory_is_split_on_the_event_loop(chars: int, at_once: bool) -> None:
    embedder = ThreadRecorder(DIMENSION, max_passage_tokens=20)
    store = InMemoryStore(dimension=DIMENSION)
    content = ("User likes tea. " * chars)[:chars]
    await SplittingWriter(store, embedder).upsert(ALICE, [embedded(memory(ALICE, content=content))])
    hits = await store.search(Criteria(ALICE), embedded(memory(ALICE)).vector, limit=9)
    assert len(hits) > 1
    assert all(hit.memory.passage for hit in hits)
    assert (embedder.threads == {threading.main_thread()}) is at_once
