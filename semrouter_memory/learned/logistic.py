"""Logistic models: a weight for each named feature, a bias, and the probability that they make. Pure.

Strategy: the weights are data, one JSON file a model next to this module, written by `make fit` from the labelled texts in
`training/`. A feature that the model does not know has no weight, so features can be words.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Self

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.model import Vector

Features = Mapping[str, float]
"""Values by the features' names."""


_SCALE = 2.0
"""Of a vector's components, which differ by hundredths."""


def components(vector: Vector) -> Features:
    """An embedding's components as features."""
    return {f"#{place}": each for place, each in enumerate((_SCALE * vector).tolist())}


def log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def probabilities(log_odds: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float32]:
    """The probability of each of these log-odds."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(log_odds, dtype=np.float32))), dtype=np.float32)


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

    def of_components(self, dimension: int) -> NDArray[np.float32]:
        """What each component of a vector adds to the log-odds: a product with it is faster than `added`."""
        return _SCALE * np.array([self.weights.get(f"#{place}", 0.0) for place in range(dimension)], np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Multinomial:
    """A model of a decision between several classes: log-odds for each, compared by softmax.

    Attributes:
        classes: their names.
        biases: for each class the log-odds where no feature is known.
        rows: by feature, its row of `weights`.
        weights: what one unit of a feature adds to the log-odds, a column for each class.
    """

    classes: tuple[str, ...]
    biases: NDArray[np.float32]
    rows: Mapping[str, int]
    weights: NDArray[np.float32]

    @classmethod
    def load(cls, name: str) -> Self:
        """The model of that name, as it was fitted."""
        return cls.of(
            {label: Logistic(each["bias"], each["weights"]) for label, each in _file(name)["classes"].items()}
        )

    @classmethod
    def of(cls, models: Mapping[str, Logistic]) -> Self:
        """The model that these make together.

        Args:
            models: by class.
        """
        rows = {name: row for row, name in enumerate({name: None for each in models.values() for name in each.weights})}
        weights = np.zeros((len(rows), len(models)), np.float32)
        for column, each in enumerate(models.values()):
            for name, weight in each.weights.items():
                weights[rows[name], column] = weight
        return cls(tuple(models), np.array([each.bias for each in models.values()], np.float32), rows, weights)

    def probabilities(self, features: Features) -> dict[str, float]:
        """By class; their sum is 1."""
        known = [(self.rows[name], value) for name, value in features.items() if name in self.rows]
        rows, values = zip(*known, strict=True) if known else ((), ())
        odds = self.biases + np.array(values, np.float32) @ self.weights[list(rows)]
        powers = np.exp(odds - odds.max())
        return dict(zip(self.classes, (powers / powers.sum()).tolist(), strict=True))


def _file(name: str) -> dict:  # type: ignore[type-arg]
    found: dict = json.loads(resources.files(__package__).joinpath(f"{name}.json").read_bytes())  # type: ignore[type-arg]
    return found
