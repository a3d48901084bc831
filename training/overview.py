"""Fits the decision whether a request asks for all that is known of the user, or for what was told last."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from semrouter_memory.learned import Logistic, probabilities
from semrouter_memory.recall.wants import overview_of
from training.fitting import Example, fit, read

_STRENGTH = 8.0
_FEWEST = 2
_CUT = 0.6
_SEVERAL = "multi"
"""Requests that want several memories may be either."""


def examples(*, held_out: bool = False) -> list[Example]:
    """Every labelled request that the product would look at, and the messages of people who tell something."""
    looked_at = ((overview_of(text), label, person) for text, label, person in _labelled(held_out=held_out))
    return [Example(features, label, person) for features, label, person in looked_at if features is not None]


def _labelled(*, held_out: bool) -> Iterator[tuple[str, str, str]]:
    for person in read("overviews.jsonl", held_out=held_out):
        yield from ((each["text"], each["label"], person["person"]) for each in person["requests"])
    for person in read("requests.jsonl", held_out=held_out):
        yield from ((each["text"], "no", person["person"]) for each in person["requests"] if each["kind"] != _SEVERAL)
    for person in read("sentences.jsonl", held_out=held_out):
        for message in person["messages"]:
            yield "".join(text for text, _ in message["sentences"]), "no", person["person"]


def model(start: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The weights and the cut; `start` is that of `fit`."""
    return {**fit(examples(), strength=_STRENGTH, fewest=_FEWEST, start=start), "cut": _CUT}


def measured() -> tuple[int, int, int, int]:
    """On the people set aside: how many are found, of how many, and how many others are taken for one, of how many.

    What the product does not look at counts as an other.
    """
    decision = Logistic.read(model())
    found = [0, 0, 0, 0]
    for text, label, _ in _labelled(held_out=True):
        features = overview_of(text)
        taken = features is not None and probabilities([decision.log_odds(features)])[0] >= _CUT
        found[0 if label == "yes" else 2] += bool(taken)
        found[1 if label == "yes" else 3] += 1
    return found[0], found[1], found[2], found[3]


if __name__ == "__main__":
    right, of_them, wrong, of_others = measured()
    sys.stdout.write(f"{right} of {of_them} found, {wrong} of {of_others} others taken for one\n")
