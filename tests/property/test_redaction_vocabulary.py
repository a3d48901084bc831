"""No word of a large vocabulary is a secret, whatever it begins with."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from semrouter_memory.retain.redact import redact

TEMPLATES = (
    "I am allergic to {}.", "User's {} is great", "User's {} expires on 2026-12-02", "my {} is great", "pin{}", "s{} and {}ness",
    "my password{} 2024", "The {} code is fine", "pass{} to me", "{} key 2024 was good", "a {} token", "User {} pass 12", "code for the {}",
    "the {} of 2024 cost 1200 euros", "secret to {}: sleep",
)  # fmt: skip
LINES_AT_ONCE = 500


def words(model_directory: Path) -> list[str]:
    """The whole words among the embedding model's tokens, names of people and places among them."""
    tokenizer = json.loads((model_directory / "tokenizer.json").read_text(encoding="utf-8"))
    return [word for word in tokenizer["model"]["vocab"] if len(word) > 2 and word.isalpha()]


def sentences(vocabulary: list[str]) -> Iterator[str]:
    """Each word in two sentences, and each sentence with one word in seven."""
    for number, word in enumerate(vocabulary):
        for step in (0, 7):
            yield TEMPLATES[(number + step) % len(TEMPLATES)].replace("{}", word)


def test_no_everyday_word_is_taken_for_a_secret(model_directory: Path) -> None:
    vocabulary = words(model_directory)
    assert len(vocabulary) > 20_000
    lines = sentences(vocabulary)
    changed = []
    while batch := list(itertools.islice(lines, LINES_AT_ONCE)):
        if redact("\n\n".join(batch)).kinds:
            changed += [line for line in batch if redact(line).kinds]
    assert changed == []
