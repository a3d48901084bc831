"""Fits the decision whether a sentence gives an order to the memory."""

import sys
from collections.abc import Mapping
from typing import Any

from semrouter_memory.language.phrases import phrases
from semrouter_memory.language.sentences import sentences
from semrouter_memory.learned import Multinomial
from semrouter_memory.retain.steering import CUT, features
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
    told = [
        (each["text"], each.get("label", "forget"), person["person"])
        for person in read("orders.jsonl", held_out=held_out)
        for each in (*person["orders"], *person["others"])
        if len(sentences(each["text"])) == 1
    ]
    ordinary = [
        (text, "remember" if label == "remember" else "none", person["person"])
        for person in read("sentences.jsonl", held_out=held_out)
        for message in person["messages"]
        for text, label in message["sentences"]
    ]
    requests = [
        (each["text"], "none", person["person"])
        for person in read("requests.jsonl", held_out=held_out)
        for each in person["requests"]
    ]
    listed, labelled = phrases("steering"), (*orders, *told, *ordinary, *requests)
    return [Example(features(text), label, person) for text, label, person in labelled if listed.occur_in(text)]


def model(start: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The weights; `start` is that of `fit`."""
    return fit(examples(), strength=_STRENGTH, fewest=_FEWEST, start=start)


def measured(cut: float = CUT) -> dict[str, tuple[int, int, int]]:
    """For each label, on the people set aside: how many are found, of how many, and how many others are taken for it."""
    decision = Multinomial.read(model())
    told = [(each.label, decision.probabilities(each.features)) for each in examples(held_out=True)]
    found = {}
    for label in decision.classes:
        taken = [meant for meant, odds in told if odds[label] >= cut]
        found[label] = taken.count(label), sum(meant == label for meant, _ in told), len(taken) - taken.count(label)
    return found


if __name__ == "__main__":
    for label, (right, all_of_it, wrong) in measured().items():
        sys.stdout.write(f"{label}: {right} of {all_of_it} found, {wrong} wrong\n")
