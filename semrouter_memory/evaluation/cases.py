"""Files of cases, one JSON object a line, and the results that are written beside the tables.

Strategy: a file is read whole and checked before anything is measured, so that a mistake in its last line does not cost
the minutes before it. Every complaint names file and line.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from semrouter_memory.errors import CaseFileError
from semrouter_memory.model import Json

T = TypeVar("T")
Case = Mapping[str, Any]


def parse_cases(path: Path, parse: Callable[[Case], T]) -> list[T]:
    """The objects of a file of JSON lines, each as what `parse` makes of it; empty lines are left out.

    Args:
        parse: raises KeyError for a field that is missing, and ValueError or TypeError, in words, for one that is wrong.

    Raises:
        CaseFileError: the file cannot be read, or a line is not a case.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise CaseFileError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CaseFileError(f"{path} is not UTF-8 text") from None
    cases = [_parsed(path, number, line, parse) for number, line in enumerate(lines, start=1) if line.strip()]
    if not cases:
        raise CaseFileError(f"{path} holds no cases")
    return cases


def _parsed(path: Path, number: int, line: str, parse: Callable[[Case], T]) -> T:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise CaseFileError(f"{path}, line {number}: not JSON: {error}") from None
    if not isinstance(case, dict):
        raise CaseFileError(f"{path}, line {number}: a case is a JSON object, not {type(case).__name__}")
    try:
        return parse(case)
    except KeyError as error:
        raise CaseFileError(f"{path}, line {number}: {error.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise CaseFileError(f"{path}, line {number}: {error}") from None


def text_of(case: Case, name: str) -> str:
    """A field that is a text.

    Raises:
        KeyError: it is missing.
        TypeError: it is something else.
    """
    value = case[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text")
    return value


def texts_of(case: Case, name: str) -> tuple[str, ...]:
    """A field that is a list of texts.

    Raises:
        KeyError: it is missing.
        TypeError: it is something else.
    """
    value = case[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of texts")
    return tuple(value)


def objects_of(case: Case, name: str) -> tuple[Case, ...]:
    """A field that is a list of objects.

    Raises:
        KeyError: it is missing.
        TypeError: it is something else.
    """
    value = case[name]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError(f"{name} must be a list of objects")
    return tuple(value)


def write_json(path: Path, value: Json) -> None:
    """Write a result, readable by people and programs.

    Raises:
        CaseFileError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CaseFileError(f"cannot write {path}: {error.strerror}") from None
