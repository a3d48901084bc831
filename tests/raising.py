"""Expected errors with their attributes: several failures share one class."""

from typing import TypeVar

import pytest

_Error = TypeVar("_Error", bound=Exception)


def raising(kind: type[_Error], *, match: str | None = None, **attributes: object) -> "pytest.RaisesExc[_Error]":
    """Same as `pytest.raises`, for an error whose attributes have these values."""

    def has_attributes(error: _Error) -> bool:
        return all(getattr(error, name) == value for name, value in attributes.items())

    return pytest.raises(kind, match=match, check=has_attributes)
