"""Fits a logistic model and measures it on people left out."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from semrouter_memory import learned
from semrouter_memory.config import Config
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.running import load_embedder
from semrouter_memory.learned import PROFILE_DIRECTORY, PROFILE_FILE

if TYPE_CHECKING:  # it takes seconds to load, and many read only the labelled files
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

WEIGHTS = Path(learned.__file__).parent
"""Of the default embedding model."""
TRAINING = Path(__file__).parent
_FOLDS = 10
_DIGITS = 3
"""Of a weight: the last digits of a solver's result depend on the machine."""
_STEPS = 12
"""From a fitted model: one label that differs moves a weight by 0.06 and more, the rounding of what is stored by 0.002."""
_THREADS = 2
"""Of BLAS and OpenMP, whatever the processors and the environment: another number gives other weights."""


class _Profile:
    """The embedding model that is fitted for, and where the weights go."""

    config: ClassVar[Config] = Config()
    directory: ClassVar[Path] = WEIGHTS


@contextmanager
def profile(config: Config) -> Iterator[None]:
    """Within it, fit for the embedding model of this configuration. What is fitted goes into the model's directory."""
    before = _Profile.config, _Profile.directory
    directory = config.memory.model_directory / PROFILE_DIRECTORY
    _Profile.config, _Profile.directory = config, directory
    # Fitted from the start: a fit of other settings would be refused.
    shutil.rmtree(directory, ignore_errors=True)
    fingerprint = embedder().fingerprint
    directory.mkdir()
    (directory / PROFILE_FILE).write_text(json.dumps({"fingerprint": fingerprint}) + "\n")
    try:
        yield
    finally:
        _Profile.config, _Profile.directory = before


def embedder() -> OnnxEmbedder:
    """The embedding model that is fitted for."""
    return load_embedder(_Profile.config, model=None, progress=print)


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled case; a fit is measured on people it has not seen."""

    features: Mapping[str, float]
    label: str
    person: str


def read(name: str, *, held_out: bool = False) -> list[dict[str, Any]]:
    """The people in one of the labelled files: those to fit on, or those that were set aside to measure with."""
    people = [json.loads(line) for line in (TRAINING / name).read_text().splitlines()]
    aside = set((TRAINING / "held_out.txt").read_text().split())
    return [person for person in people if (person["person"] in aside) is held_out]


def fit(
    examples: Sequence[Example], *, strength: float, fewest: int = 1, start: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The model as it is stored.

    Args:
        strength: inverse of the L2 penalty.
        fewest: people of whom a feature must tell to get a weight; what one person often says tells nothing of others.
        start: a model that was fitted before. The solver makes a few steps from it. It stays there when these examples
            give this model, as the loss is convex, and leaves it when one example differs.
    """
    vectorizer, solver = _fitted(examples, strength, fewest, start)
    names = [str(name) for name in vectorizer.get_feature_names_out()]
    models = [
        {"bias": round(float(bias), _DIGITS), "weights": _weights(names, row)}
        for row, bias in zip(solver.coef_, solver.intercept_, strict=True)
    ]
    # Of two classes ("no", "yes") the second's log-odds say all.
    return models[0] if len(models) == 1 else {"classes": dict(zip(map(str, solver.classes_), models, strict=True))}


def _weights(names: Sequence[str], row: Sequence[float]) -> dict[str, float]:
    rounded = {name: round(float(weight), _DIGITS) for name, weight in zip(names, row, strict=True)}
    return {name: weight for name, weight in rounded.items() if weight}


def left_out(examples: Sequence[Example], *, strength: float, fewest: int = 1) -> list[dict[str, float]]:
    """For each example the probabilities by class, of a model that was fitted without its person."""
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415

    found: list[dict[str, float]] = [{}] * len(examples)
    people = [each.person for each in examples]
    for known, unseen in GroupKFold(_FOLDS).split(examples, groups=people):
        vectorizer, solver = _fitted([examples[each] for each in known], strength, fewest)
        rows = solver.predict_proba(vectorizer.transform([examples[each].features for each in unseen]))
        for each, row in zip(unseen, rows, strict=True):
            found[each] = dict(zip(map(str, solver.classes_), map(float, row), strict=True))
    return found


def _fitted(
    examples: Sequence[Example], strength: float, fewest: int, start: Mapping[str, Any] | None = None
) -> "tuple[DictVectorizer, LogisticRegression]":
    from scipy.sparse import csr_array  # noqa: PLC0415
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    vectorizer = DictVectorizer()
    table = vectorizer.fit_transform([each.features for each in examples])
    _, places = np.unique([each.person for each in examples], return_inverse=True)
    by_person = csr_array((np.ones(len(places)), (places, np.arange(len(places)))))
    vectorizer.restrict((by_person @ (table != 0) > 0).sum(axis=0) >= fewest)
    table = vectorizer.transform([each.features for each in examples])
    solver = LogisticRegression(C=strength, max_iter=2_000, tol=1e-6)
    if start is not None:
        _start(solver, start, vectorizer.get_feature_names_out())
    # Threads add up parts, so their number decides the last digits, and a solver that stops early enlarges these.
    with threadpool_limits(limits=_THREADS):
        solver.fit(table, [each.label for each in examples])
    return vectorizer, solver


def _start(solver: "LogisticRegression", model: Mapping[str, Any], names: Sequence[str]) -> None:
    models = [each for _, each in sorted(model["classes"].items())] if "classes" in model else [model]
    solver.coef_ = np.array([[each["weights"].get(name, 0.0) for name in names] for each in models])
    solver.intercept_ = np.array([each["bias"] for each in models])
    solver.set_params(warm_start=True, max_iter=_STEPS)


def write(name: str, model: Mapping[str, object]) -> None:
    """Store a model where the product reads it, in a form in which a change can be read."""
    (_Profile.directory / f"{name}.json").write_text(
        json.dumps(model, ensure_ascii=False, indent=0, sort_keys=True) + "\n"
    )
