"""Fits the decision whether a sentence gives an order to the memory."""

from collections.abc import Mapping
from typing import Any

from semrouter_memory.language.phrases import phrases
from semrouter_memory.steering import features
from training.fitting import Example, fit, read

_STRENGTH = 4.0
_FEWEST = 2


def examples(*, held_out: bool = False) -> list[Example]:
    """Every labelled sentence that the product would look at, and those of ordinary messages, which give no order."""
    orders = [
        (each["text"], each["label"], person["person"])
        for person in read("steering.jsonl", held_out=held_out)
        for each in person["sentences"]
    ]
    ordinary = [
        (text, "remember" if label == "remember" else "none", person["person"])
        for person in read("sentences.jsonl", held_out=held_out)
        for message in person["messages"]
        for text, label in message["sentences"]
    ]
    listed = phrases("steering")
    return [
        Example(features(text), label, person) for text, label, person in (*orders, *ordinary) if listed.occur_in(text)
    ]


def model(start: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The weights; `start` is that of `fit`."""
    return fit(examples(), strength=_STRENGTH, fewest=_FEWEST, start=start)
