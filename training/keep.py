"""The decision *keep?*: which sentences of a message are worth keeping."""

from typing import Any

from semrouter_memory.retain.keep import features, in_message
from training.fitting import Example, fit, read

KEPT = frozenset(
    ("fact", "people", "work", "taste", "plan", "event", "style", "procedure", "remember", "update", "answer", "mixed")
)
UNTRUE = frozenset(("supposition", "fiction", "roleplay", "irony", "joke", "pasted", "homework", "others", "sensitive"))
_STRENGTH = 0.4
_FEWEST = 2


def examples(*, held_out: bool = False) -> list[Example]:
    """Every labelled sentence."""
    found = []
    for person in read("sentences.jsonl", held_out=held_out):
        for message in person["messages"]:
            pieces = [piece for piece, _ in message["sentences"]]
            sentences = in_message(pieces, "".join(pieces), message["before"])
            for sentence, (_, label) in zip(sentences, message["sentences"], strict=True):
                found.append(Example(features(sentence), _class(label), person["person"]))
    return found


def _class(label: str) -> str:
    return "kept" if label in KEPT else "untrue" if label in UNTRUE else "other"


def model() -> dict[str, Any]:
    """The weights."""
    return fit(examples(), strength=_STRENGTH, fewest=_FEWEST)
