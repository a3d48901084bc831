"""Files of cases, one JSON object a line, and the results that are written in addition to the tables.

Strategy: a file is read whole and checked before anything is measured, so that a mistake in its last line does not cost
the minutes before it. Every complaint names file and line. The dataclass of a format says what its lines hold: a field
with a default may be left out or null, and members that it does not have are ignored.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError

from semrouter_memory.errors import InputFileError, complaint
from semrouter_memory.model import Json, Role

T = TypeVar("T")

_reader: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Of a kind of case: making one takes as long as reading many lines."""


def _or_empty(empty: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: empty if value is None else value)


def _time(value: object) -> object:
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"must be a time such as 2026-03-15T10:00:00Z; {value!r} is none") from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


Time = Annotated[datetime, BeforeValidator(_time)]
"""A time in ISO 8601; without an offset it is UTC."""
LowerCased = Annotated[str, AfterValidator(str.lower)]
Text = Annotated[str, _or_empty("")]
LowerCasedTexts = Annotated[tuple[LowerCased, ...], _or_empty(())]
Ids = Annotated[frozenset[str], _or_empty(frozenset())]


@dataclass(frozen=True, slots=True)
class CaseTurn:
    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class CaseMessage:
    role: Role
    content: str


History = Annotated[tuple[CaseMessage, ...], _or_empty(())]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fact that should be remembered: `about` names it for people, one text of `any_of` tells it."""

    about: str
    any_of: tuple[LowerCased, ...]

    def told_in(self, texts: Iterable[str]) -> bool:
        return any(part in text for text in map(str.lower, texts) for part in self.any_of)


def case_of(kind: type[T], value: object) -> T:
    """The case that a line's JSON describes.

    Raises:
        ValueError: it describes none; the message names the field.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a case is a JSON object, not {type(value).__name__}")  # noqa: TRY004 - same
    try:
        case: T = _reader(kind).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        path = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in problem["loc"])
        raise ValueError(": ".join(filter(None, (path.removeprefix("."), complaint(problem))))) from None
    return case


def parse_cases(path: Path, parse: Callable[[Json], T]) -> list[T]:
    """The objects of a file of JSON lines, each as what `parse` makes of it; empty lines are left out.

    Args:
        parse: raises ValueError, in words, for what is no case.

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


def read_cases(path: Path, kind: type[T]) -> list[T]:
    """The cases of a file. Raises: InputFileError, same as `parse_cases`."""
    return parse_cases(path, lambda value: case_of(kind, value))


def _parsed(path: Path, number: int, line: str, parse: Callable[[Json], T]) -> T:
    try:
        return parse(json.loads(line))
    except json.JSONDecodeError as error:
        raise InputFileError(f"{path}, line {number}: not JSON: {error}") from None
    except ValueError as error:
        raise InputFileError(f"{path}, line {number}: {error}") from None


def write_json(path: Path, value: Json) -> None:
    """Write a result, readable by people and programs.

    Raises:
        InputFileError: the file cannot be written.
    """
    write_file(path, f"{json.dumps(value, ensure_ascii=False, indent=2)}\n".encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a result of whatever kind. Raises: InputFileError, same as `write_json`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise InputFileError(f"cannot write {path}: {error.strerror}") from None
