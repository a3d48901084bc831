"""Which memories are meant: the criteria of a read, and filters like `category=work,metadata.team=core,min_importance=0.5`. Pure.

Filters have one grammar for routes, requests, the API and the command line. All conditions must hold, so two filters together are both.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TypeAlias
from urllib.parse import unquote

from semrouter_memory.model.memories import ALWAYS, CATEGORY, PROVENANCE, Memory, Period
from semrouter_memory.model.scope import Json, MemoryType, Reach, Scope

MAX_VALUE_CHARS = 128
"""Of a value that a filter can name, and of a category."""
MAX_FILTER_CHARS = 2_000

_METADATA, _IMPORTANCE = "metadata.", "min_importance"
_KEY = re.compile(r"[\w.-]{1,64}")
NO_TEXT = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?|true|false", re.ASCII)
"""How numbers and booleans read, in JSON and in expressions of the store, which read 010 as eight and 08 not at all."""
_UNSAFE = frozenset('"\\{}')
"""No value with one of these becomes part of an expression of the store."""
_FORM = 'is written like "category=work,metadata.team=core,min_importance=0.5"'

Attached: TypeAlias = frozenset[tuple[str, str]]
"""Keys and values of a memory that a filter can name, the category among them."""


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """What a memory must have.

    Attributes:
        conditions: keys of the metadata and their values.
        min_importance: the least importance.
    """

    conditions: Attached = frozenset()
    min_importance: float = 0.0

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.conditions) or self.min_importance > 0

    def __and__(self, other: "MemoryFilter") -> "MemoryFilter":
        return MemoryFilter(self.conditions | other.conditions, max(self.min_importance, other.min_importance))

    def __contains__(self, memory: Memory) -> bool:
        """Whether a memory is wanted."""
        return memory.importance >= self.min_importance and (
            not self.conditions or self.conditions <= attached_to(memory.metadata)
        )


ANY_MEMORY = MemoryFilter()


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which of an owner's memories are meant.

    Attributes:
        active_at: only memories that are neither superseded nor expired then; None: superseded and expired ones too.
        types: None: of every type; an empty set: no memory.
        observed: only memories of what was said in this period.
        expires_by: only memories that expire then or before.
    """

    scope: Scope
    _: KW_ONLY
    reach: Reach = Reach.ALL
    active_at: datetime | None = None
    types: frozenset[MemoryType] | None = None
    memory_filter: MemoryFilter = ANY_MEMORY
    observed: Period = ALWAYS
    expires_by: datetime | None = None


def attached_to(metadata: Mapping[str, Json]) -> Attached:
    """What a filter can name of a memory's metadata: the caller's texts, numbers and booleans."""
    values = ((key, filterable(value)) for key, value in metadata.items() if key not in PROVENANCE)
    return frozenset((key, text) for key, text in values if text)


def filterable(value: Json) -> str:
    """The value as a filter names it; "" where none can: a list, a long text or number, control characters, quotes, braces."""
    if isinstance(value, float) and value.is_integer():
        # JSON knows one kind of number.
        value = int(value)
    if isinstance(value, bool | int | float):
        value = text if NO_TEXT.fullmatch(text := json.dumps(value)) else ""
    is_named = isinstance(value, str) and len(value) <= MAX_VALUE_CHARS and value.isprintable()
    return value if is_named and _UNSAFE.isdisjoint(value) else ""


def parse_filter(text: str) -> MemoryFilter:
    """Read a filter; "" is one that leaves nothing out. A comma in a value is written %2C, as in a URL.

    Raises:
        ValueError: it cannot be read; the message says what to write.
    """
    if len(text) > MAX_FILTER_CHARS:
        raise ValueError(f"is longer than {MAX_FILTER_CHARS} characters")
    wanted = ANY_MEMORY
    for condition in text.split(",") if text.strip() else ():
        name, is_there, value = condition.partition("=")
        if not is_there:
            raise ValueError(_FORM)
        wanted &= _condition(unquote(name.strip()), value.strip())
    return wanted


def _condition(name: str, value: str) -> MemoryFilter:
    if name == _IMPORTANCE:
        return MemoryFilter(min_importance=_importance(value))
    key = name if name == CATEGORY else name.removeprefix(_METADATA)
    if key == name != CATEGORY:
        raise ValueError(f"has a name besides category, min_importance and metadata.KEY; it {_FORM}")
    if not _KEY.fullmatch(key) or key in PROVENANCE:
        raise ValueError("has a key that no caller's metadata has: letters, digits, dots, dashes, underscores")
    wanted = filterable(unquote(value))
    if not wanted:
        raise ValueError(
            f"has a value that cannot be searched for: 1 to {MAX_VALUE_CHARS} characters without quotation marks,"
            " backslashes and braces"
        )
    return MemoryFilter(frozenset({(key, wanted)}))


def _importance(value: str) -> float:
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if not 0 <= least <= 1:
        raise ValueError("has a min_importance that is no number from 0 to 1")
    return least
