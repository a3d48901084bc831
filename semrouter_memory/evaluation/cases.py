"""Files of cases, one JSON object a line, and the results that are written in addition to the tables.

Strategy: a file is read whole and checked before anything is measured, so that a mistake in its last line does not cost
the minutes before it. Every complaint names file and line.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from semrouter_memory.errors import InputFileError
from semrouter_memory.model import Json, Message, Role

T = TypeVar("T")
EnumT = TypeVar("EnumT", bound=StrEnum)
Case = Mapping[str, Any]


def parse_cases(path: Path, parse: Callable[[Case], T]) -> list[T]:
    """The objects of a file of JSON lines, each as what `parse` makes of it; empty lines are left out.

    Args:
        parse: raises KeyError for a field that is missing, and ValueError or TypeError, in words, for one that is wrong.

    Raises:
        InputFileError: the file cannot be read, or a line is not a case.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InputFileError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputFileError(f"{path} is not UTF-8 text") from None
    cases = [_parsed(path, number, line, parse) for number, line in enumerate(lines, start=1) if line.strip()]
    if not cases:
        raise InputFileError(f"{path} holds no cases")
    return cases


def _parsed(path: Path, number: int, line: str, parse: Callable[[Case], T]) -> T:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise InputFileError(f"{path}, line {number}: not JSON: {error}") from None
    if not isinstance(case, dict):
        raise InputFileError(f"{path}, line {number}: a case is a JSON object, not {type(case).__name__}")
    try:
        return parse(case)
    except KeyError as error:
        raise InputFileError(f"{path}, line {number}: {error.args[0]} is missing") from None
    except (ValueError, TypeError) as error:
        raise InputFileError(f"{path}, line {number}: {error}") from None


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


def each_of(case: Case, name: str, parse: Callable[[Case], T]) -> tuple[T, ...]:
    """What `parse` makes of each object of a list; a complaint names the object by its position.

    Raises:
        KeyError: the list or a field of an object is missing.
        TypeError: a field has another form.
        ValueError: `parse` rejects an object.
    """
    return tuple(_located(f"{name}[{index}]", item, parse) for index, item in enumerate(objects_of(case, name)))


def _located(path: str, case: Case, parse: Callable[[Case], T]) -> T:
    try:
        return parse(case)
    except KeyError as error:
        raise KeyError(f"{path}.{error.args[0]}") from None
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}.{error}") from None


def one_of(values: type[EnumT], case: Case, name: str) -> EnumT:
    """A field that is a member of an enumeration.

    Raises:
        KeyError: it is missing.
        TypeError: it is no text.
        ValueError: it is another text.
    """
    text = text_of(case, name)
    try:
        return values(text)
    except ValueError:
        raise ValueError(f"{name} must be one of {', '.join(values)}; {text!r} is none") from None


def time_of(case: Case, name: str) -> datetime:
    """A field that is a time in ISO 8601; without an offset it is UTC.

    Raises:
        KeyError: it is missing.
        TypeError: it is no text.
        ValueError: it is no time.
    """
    complaint = f"{name} must be a time such as 2026-03-15T10:00:00Z"
    value = case[name]
    if not isinstance(value, str):
        raise TypeError(complaint)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{complaint}; {value!r} is none") from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def message_of(case: Case) -> Message:
    """An object {"role", "content"} of a conversation."""
    return Message(one_of(Role, case, "role"), text_of(case, "content"))


def write_json(path: Path, value: Json) -> None:
    """Write a result, readable by people and programs.

    Raises:
        InputFileError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputFileError(f"cannot write {path}: {error.strerror}") from None
