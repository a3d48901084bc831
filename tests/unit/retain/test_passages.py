"""What is kept of a text that is longer than the embedding model reads."""

import pytest

from semrouter_memory.retain.passages import beginning, fitted, reads_all
from tests.hashed import HashedEmbedder

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
