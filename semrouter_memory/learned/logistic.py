"""Logistic models: a weight for each named feature, a bias, and the probability that they make. Pure.

Strategy: the weights are data, one JSON file a model beside this module, written by `make fit` from the labelled texts in
`training/`. A feature that the model does not know has no weight, so features can be words.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Self

Features = Mapping[str, float]
"""Values by the features' names."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """A model of one decision.

    Attributes:
        bias: the log-odds where no feature is known.
        weights: what one unit of a feature adds to the log-odds.
        cut: the probability from which on the answer is yes.
    """

    bias: float
    weights: Mapping[str, float]
    cut: float = 0.5

    @classmethod
    def load(cls, name: str) -> Self:
        """The model of that name, as it was fitted."""
        found = _file(name)
        return cls(found["bias"], found["weights"], found["cut"])

    def log_odds(self, features: Features) -> float:
        return self.bias + self.added(features)

    def added(self, features: Features) -> float:
        """What these features add to the log-odds."""
        weights = self.weights
        return sum(weights[name] * value for name, value in features.items() if name in weights)

    def probability(self, features: Features) -> float:
        return 1 / (1 + math.exp(-self.log_odds(features)))


@dataclass(frozen=True)
class Multinomial:
    """A model of a decision between several classes: log-odds for each, compared by softmax."""

    classes: Mapping[str, Logistic]

    @classmethod
    def load(cls, name: str) -> Self:
        """The model of that name, as it was fitted."""
        return cls({label: Logistic(each["bias"], each["weights"]) for label, each in _file(name)["classes"].items()})

    def probabilities(self, features: Features) -> dict[str, float]:
        """By class; their sum is 1."""
        found = [model.bias for model in self.classes.values()]
        for name, value in features.items():
            for at, weight in self._by_feature.get(name, ()):
                found[at] += weight * value
        highest = max(found)
        powers = [math.exp(each - highest) for each in found]
        total = sum(powers)
        return {label: power / total for label, power in zip(self.classes, powers, strict=True)}

    @cached_property
    def _by_feature(self) -> dict[str, list[tuple[int, float]]]:
        """Class and weight, by feature: one look-up a feature instead of one a class."""
        table: dict[str, list[tuple[int, float]]] = {}
        for at, model in enumerate(self.classes.values()):
            for name, weight in model.weights.items():
                table.setdefault(name, []).append((at, weight))
        return table


def present(names: Iterable[str]) -> dict[str, float]:
    """Features that are there or not, such as words."""
    return dict.fromkeys(names, 1.0)


@cache
def _file(name: str) -> dict:  # type: ignore[type-arg]
    found: dict = json.loads(resources.files(__package__).joinpath(f"{name}.json").read_bytes())  # type: ignore[type-arg]
    return found
