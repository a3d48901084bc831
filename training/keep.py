"""The decision *keep?*: which sentences of a message are worth keeping."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from semrouter_memory.retain.keep import features, meaning
from training import fitting
from training.fitting import Example, fit, left_out, read

KEPT = frozenset(
    ("fact", "people", "work", "taste", "plan", "event", "style", "procedure", "remember", "update", "answer", "mixed")
)
UNTRUE = frozenset(("supposition", "fiction", "roleplay", "irony", "joke", "pasted", "homework", "others", "sensitive"))
_STRENGTH = 0.4
_STRENGTH_IN_DOUBT = 0.1
_FEWEST = 2


def examples(*, held_out: bool = False) -> list[Example]:
    """Every labelled sentence."""
    found = []
    for person in read("sentences.jsonl", held_out=held_out):
        for message in person["messages"]:
            pieces = [piece for piece, _ in message["sentences"]]
            rows = features(pieces, "".join(pieces), message["before"])
            for row, (_, label) in zip(rows, message["sentences"], strict=True):
                found.append(Example(row, _class(label), person["person"]))
    return found


def _class(label: str) -> str:
    return "lasting" if label in KEPT else "untrue" if label in UNTRUE else "other"


def model(start: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The weights of the first decision, by words; `start` is that of `fit`."""
    return fit(examples(), strength=_STRENGTH, fewest=_FEWEST, start=start)


def model_in_doubt() -> dict[str, Any]:
    """The weights of the second decision, by meaning.

    It sees what the first says of people it was not fitted on, as it will in use.
    """
    told = left_out(examples(), strength=_STRENGTH, fewest=_FEWEST)
    texts = [piece.strip() for person in read("sentences.jsonl") for piece, _ in _pieces(person)]
    embedder = fitting.embedder()
    once = sorted(set(texts))
    vectors = dict(zip(once, asyncio.run(embedder.embed_passages(once)), strict=True))
    return fit(
        [
            Example(meaning(by_words, vectors[text]), example.label, example.person)
            for example, by_words, text in zip(examples(), told, texts, strict=True)
        ],
        strength=_STRENGTH_IN_DOUBT,
    )


def _pieces(person: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every sentence with its label."""
    return (piece for message in person["messages"] for piece in message["sentences"])
