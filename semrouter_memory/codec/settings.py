"""The settings that a request's body or a route may carry: how each is read, and what it governs.

Strategy: a setting that cannot be read (wrong type, out of range, unknown name) switches off what it governs, for that
request alone; reading a switch as "on" that was meant as "off" would store what the user did not want stored. JSON null
is as good as absent. Only names from the tables here leave this module, never what a client wrote.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import partial
from typing import Any, TypeVar, get_args

from semrouter_memory.model import (
    Json,
    MemoryFilter,
    MemoryType,
    OwnerKind,
    Position,
    RenderStyle,
    StrategyName,
    parse_filter,
)

_T = TypeVar("_T")

CONFIG, CONTEXT = OUR_FIELDS = ("memory_config", "memory_context")
"""Read and taken out: upstreams may reject fields they do not know."""
ROUTE_PREFIX = "x-memory-"
UNKNOWN = "unknown"
"""Stands for every name that is not in the tables."""

SWITCH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
"""What the text of a switch means, in lower case."""


class Governs(Flag):
    """What of memory a setting decides about."""

    ITSELF = 0
    """Only what it names; read or not, memories are recalled and stored."""
    READING = auto()
    WRITING = auto()
    BOTH = READING | WRITING


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        attribute: its name in `BodySettings` or `RouteSettings`.
        kind: whose it is, where the attribute maps kinds of owners to values.
        value: the checked value of parsed JSON; raises `ValueError`.
        parse: a route's text as JSON would have it; raises `ValueError` or `KeyError`.
    """

    attribute: str
    governs: Governs
    value: Callable[[Json], Any]
    parse: Callable[[str], Json] = str
    kind: OwnerKind | None = None

    def from_text(self, text: str) -> Any:
        """The checked value of a route's text."""
        return self.value(self.parse(text.strip()))


def _of_type(kind: type[_T]) -> Callable[[Json], _T]:
    def checked(value: Json) -> _T:
        if type(value) is not kind:
            raise ValueError
        return value

    return checked


_text = _of_type(str)


def _limit(value: Json) -> int:
    # True is not the number 1; JSON knows one kind of number, so 3.0 is an integer.
    if type(value) not in (int, float) or value != value // 1 or value < 0:
        raise ValueError
    return int(value)


def _at_most_one(value: Json, *, least: float) -> float:
    if type(value) not in (int, float) or not least <= value <= 1.0:
        raise ValueError
    return float(value)


_threshold, _share = partial(_at_most_one, least=-1.0), partial(_at_most_one, least=0.0)


def _switch(text: str) -> bool:
    return SWITCH[text.lower()]


def _one_of(names: Collection[str]) -> Callable[[Json], str]:
    def checked(value: Json) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return checked


def _types(value: Json) -> frozenset[MemoryType]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError
    return frozenset(MemoryType(name.strip().lower()) for name in value)


def _filter(value: Json) -> MemoryFilter:
    return parse_filter(_text(value))


_ENABLED = Setting("enabled", Governs.BOTH, _of_type(bool), _switch)
_AUTO_STORE = Setting("auto_store", Governs.WRITING, _of_type(bool), _switch)
_LIMIT = Setting("retrieval_limit", Governs.READING, _limit, int)
_THRESHOLD = Setting("similarity_threshold", Governs.READING, _threshold, float)
_TYPES = Setting("memory_types", Governs.READING, _types, lambda text: text.split(","))
_FILTER = Setting("memory_filter", Governs.READING, _filter)
_OTHER_KINDS = (OwnerKind.ORGANISATION, OwnerKind.AGENT)
_BOUNDS = {f"{kind}-limit": Setting("limits", Governs.READING, _limit, int, kind) for kind in _OTHER_KINDS} | {
    f"{kind}-share": Setting("shares", Governs.READING, _share, float, kind) for kind in _OTHER_KINDS
}

BODY: Mapping[str, Mapping[str, Setting]] = {
    CONFIG: {
        each.attribute: each
        for each in (
            _ENABLED,
            _AUTO_STORE,
            _TYPES,
            _LIMIT,
            _THRESHOLD,
            Setting("session_end", Governs.ITSELF, _of_type(bool)),
        )
    }
    | {name.replace("-", "_"): setting for name, setting in _BOUNDS.items()}
    | {"filter": _FILTER},
    CONTEXT: {
        # In doubt who the user is, or what the conversation belongs to.
        each.attribute: each
        for each in (
            Setting("user_id", Governs.BOTH, _of_type(str)),
            Setting("project_id", Governs.BOTH, _of_type(str)),
        )
    },
}
ROUTE: Mapping[str, Setting] = {
    f"{ROUTE_PREFIX}enabled": _ENABLED,
    f"{ROUTE_PREFIX}auto-store": _AUTO_STORE,
    f"{ROUTE_PREFIX}types": _TYPES,
    f"{ROUTE_PREFIX}filter": _FILTER,
    f"{ROUTE_PREFIX}limit": _LIMIT,
    f"{ROUTE_PREFIX}threshold": _THRESHOLD,
    f"{ROUTE_PREFIX}tool-result-tokens": Setting("tool_result_tokens", Governs.READING, _limit, int),
    f"{ROUTE_PREFIX}position": Setting("position", Governs.READING, Position, str.lower),
    f"{ROUTE_PREFIX}strategy": Setting("strategy", Governs.READING, _one_of(get_args(StrategyName)), str.lower),
    f"{ROUTE_PREFIX}render": Setting("render", Governs.READING, _one_of(get_args(RenderStyle)), str.lower),
    f"{ROUTE_PREFIX}pinned-tokens": Setting("pinned_tokens", Governs.READING, _limit, int),
    **{f"{ROUTE_PREFIX}{kind}": Setting("owners", Governs.BOTH, _of_type(str), kind=kind) for kind in _OTHER_KINDS},
    **{f"{ROUTE_PREFIX}{name}": setting for name, setting in _BOUNDS.items()},
}

_GOVERNS = {name: setting.governs for name, setting in ROUTE.items()} | {
    f"{field}.{name}": setting.governs for field, settings in BODY.items() for name, setting in settings.items()
}


def governed_by(unreadable: Iterable[str]) -> Governs:
    """What these settings switch off; an unknown one may have been meant as any switch."""
    off = Governs.ITSELF
    for name in unreadable:
        off |= _GOVERNS.get(name, Governs.BOTH)
    return off


def body_values(body: Mapping[str, Json]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of the body's settings by attribute, and the names of those that cannot be read."""
    read = _Reader()
    for field, settings in BODY.items():
        given = body.get(field)
        if isinstance(given, dict):
            for name, value in given.items():
                setting = settings.get(name)
                if setting is None:
                    read.unreadable[f"{field}.{UNKNOWN}"] = None
                elif value is not None:
                    read.take(setting, setting.value, value, f"{field}.{name}")
        elif given is not None:
            read.unreadable[field] = None
    return read.values, tuple(read.unreadable)


def route_values(metadata: Mapping[str, str], other: Iterable[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Same as `body_values`, of the gRPC metadata of a stream (names in lower case).

    Args:
        other: names with our prefix that are no settings of a route.
    """
    read = _Reader()
    others = frozenset(other)
    for name, text in metadata.items():
        setting = ROUTE.get(name)
        if setting is not None:
            read.take(setting, setting.from_text, text, name)
        elif name.startswith(ROUTE_PREFIX) and name not in others:
            read.unreadable[f"{ROUTE_PREFIX}{UNKNOWN}"] = None
    return read.values, tuple(read.unreadable)


class _Reader:
    """Collects values by attribute, and the names of settings that cannot be read, each once and in order."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.unreadable: dict[str, None] = {}

    def take(self, setting: Setting, convert: Callable[[Any], Any], raw: Any, name: str) -> None:
        try:
            value = convert(raw)
        except (ValueError, KeyError):
            self.unreadable[name] = None
            return
        if setting.kind is None:
            self.values[setting.attribute] = value
        else:
            self.values.setdefault(setting.attribute, {})[setting.kind] = value
