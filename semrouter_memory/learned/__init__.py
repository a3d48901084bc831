"""Decisions about language that are fitted on labelled data: logistic models over named features. Pure.

Strategy: a weight for each named feature and a bias make a probability. The weights are data, one JSON file a model next to
this module, written by `make fit` from the labelled texts in `training/`. A feature that the model does not know has no weight,
so features can be words. Similarities depend on the embedding model: what is fitted for another one lies in its directory, and
replaces the package's weights in the loaded models (`use_profile`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import Vector

Features = Mapping[str, float]
"""Values by the features' names."""


PROFILE_DIRECTORY = "learned"
"""In an embedding model's directory: the weights that were fitted for it."""
PROFILE_FILE = "profile.json"
"""There: names the vector space, as `{"fingerprint": ...}`."""
_FIT_AGAIN = "run `make fit PROFILE=<configuration file>`, or remove the directory"
_SCALE = 2.0
"""Of a vector's components, which differ by hundredths."""
_BIASES = 0
"""The row of a multinomial model's weights that counts once for every example."""


def components(vector: Vector) -> Features:
    """An embedding's components as features."""
    return {f"#{place}": each for place, each in enumerate((_SCALE * vector).tolist())}


def log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def probabilities(log_odds: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float32]:
    """The probability of each of these log-odds."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(log_odds, dtype=np.float32))), dtype=np.float32)


@dataclass(slots=True, eq=False)
class Logistic:
    """A model of one decision.

    Attributes:
        bias: the log-odds where no feature is known.
        weights: what one unit of a feature adds to the log-odds.
        cut: the probability from which on the answer is yes.
        constants: other numbers that the fit chose.
    """

    bias: float
    weights: Mapping[str, float]
    cut: float = 0.5
    constants: Mapping[str, float] = field(default_factory=dict)
    _of_components: dict[int, NDArray[np.float32]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def load(cls, name: str) -> Self:
        """The model of that name, as it was fitted; always the same object, which `use_profile` changes."""
        return _load(cls, name)

    @classmethod
    def read(cls, found: dict) -> Self:  # type: ignore[type-arg]
        """The model that a file holds."""
        return cls(found["bias"], found["weights"], found["cut"], found.get("constants", {}))

    @property
    def log_cut(self) -> float:
        """The cut in log-odds."""
        return log_odds(self.cut)

    def log_odds(self, features: Features) -> float:
        return self.bias + self.added(features)

    def added(self, features: Features) -> float:
        """What these features add to the log-odds."""
        weights = self.weights
        return sum(weights[name] * value for name, value in features.items() if name in weights)

    def of_components(self, dimension: int) -> NDArray[np.float32]:
        """What each component of a vector adds to the log-odds: a product with it is faster than `added`."""
        if dimension not in self._of_components:
            weights = [self.weights.get(f"#{place}", 0.0) for place in range(dimension)]
            self._of_components[dimension] = _SCALE * np.array(weights, np.float32)
        return self._of_components[dimension]


@dataclass(slots=True, eq=False)
class Multinomial:
    """A model of a decision between several classes: log-odds for each, compared by softmax.

    Attributes:
        classes: their names.
        rows: by feature, its row of `weights`.
        weights: what one unit of a feature adds to the log-odds, a column for each class; the first row has the log-odds
            where no feature is known.
    """

    classes: tuple[str, ...]
    rows: Mapping[str, int]
    weights: NDArray[np.float32]

    @classmethod
    def load(cls, name: str) -> Self:
        """The model of that name, as it was fitted; always the same object, which `use_profile` changes."""
        return _load(cls, name)

    @classmethod
    def read(cls, found: dict) -> Self:  # type: ignore[type-arg]
        """The model that a file holds."""
        return cls.of({label: Logistic(each["bias"], each["weights"]) for label, each in found["classes"].items()})

    @classmethod
    def of(cls, models: Mapping[str, Logistic]) -> Self:
        """The model that these make together.

        Args:
            models: by class.
        """
        names = dict.fromkeys(name for each in models.values() for name in each.weights)
        rows = {name: row for row, name in enumerate(names, _BIASES + 1)}
        weights = np.zeros((_BIASES + 1 + len(rows), len(models)), np.float32)
        for column, each in enumerate(models.values()):
            weights[_BIASES, column] = each.bias
            for name, weight in each.weights.items():
                weights[rows[name], column] = weight
        return cls(tuple(models), rows, weights)

    def probabilities(self, features: Features) -> dict[str, float]:
        """By class; their sum is 1."""
        return self.of_each([features])[0]

    def of_each(self, examples: Sequence[Features]) -> list[dict[str, float]]:
        """The probabilities of each example. One call for many costs a third of a call for each."""
        if not examples:
            return []
        rows, values, starts = list[int](), list[float](), list[int]()
        for features in examples:
            starts.append(len(rows))
            rows.append(_BIASES)
            values.append(1.0)
            for name, value in features.items():
                if (row := self.rows.get(name)) is not None:
                    rows.append(row)
                    values.append(value)
        odds = np.add.reduceat(self.weights[rows] * np.array(values, np.float32)[:, np.newaxis], starts)
        powers = np.exp(odds - odds.max(axis=1, keepdims=True))
        found = powers / powers.sum(axis=1, keepdims=True)
        return [dict(zip(self.classes, each, strict=True)) for each in found.tolist()]


_ModelT = TypeVar("_ModelT", bound=Logistic | Multinomial)


class _Loaded:
    """The models in use.

    Attributes:
        models: by name.
        directory: of the profile's weights; None: the package's alone.
    """

    models: ClassVar[dict[str, Logistic | Multinomial]] = {}
    directory: ClassVar[Path | None] = None


def _load(kind: type[_ModelT], name: str) -> _ModelT:
    model = _Loaded.models.setdefault(name, kind.read(_file(name)))
    assert isinstance(model, kind)
    return model


def use_profile(directory: Path, fingerprint: str) -> bool:
    """Take the weights that were fitted for this embedding model; those that it lacks are the package's.

    Args:
        directory: the embedding model's.
        fingerprint: names its vector space.

    Returns:
        Whether there are such weights.

    Raises:
        ConfigurationError: they are of another vector space, or damaged.
    """
    own = directory / PROFILE_DIRECTORY
    _Loaded.directory = own if own.is_dir() else None
    try:
        if _Loaded.directory and json.loads((own / PROFILE_FILE).read_bytes())["fingerprint"] != fingerprint:
            raise ConfigurationError(f"{own} was fitted for another model or other settings of it; {_FIT_AGAIN}")
        for name, model in _Loaded.models.items():
            fitted = type(model).read(_file(name))
            for each in fields(model):
                setattr(model, each.name, getattr(fitted, each.name))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(f"{own} is damaged; {_FIT_AGAIN}") from None
    return _Loaded.directory is not None


def _file(name: str) -> dict:  # type: ignore[type-arg]
    own = _Loaded.directory and _Loaded.directory / f"{name}.json"
    file = own if own and own.exists() else resources.files(__package__).joinpath(f"{name}.json")
    found: dict = json.loads(file.read_bytes())  # type: ignore[type-arg]
    return found
