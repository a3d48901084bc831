"""What applies to one request. Request beats route beats file, but a switch that is off anywhere stays off."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import IdentityConfig, MemoryConfig, SignalsConfig
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import MemoryType, Position, RecallOptions, Signals

T = TypeVar("T")

_SWITCH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """Settings of a route, from the gRPC initial metadata that its filter sends; None where it is silent.

    Attributes:
        ignored: names of settings whose value does not fit; they have no effect.
    """

    enabled: bool | None = None
    auto_store: bool | None = None
    limit: int | None = None
    threshold: float | None = None
    types: frozenset[MemoryType] | None = None
    position: Position | None = None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The merged settings of one request."""

    recall: bool
    retain: bool
    options: RecallOptions


def route_settings(metadata: Mapping[str, str]) -> RouteSettings:
    """Read `x-memory-*` from the gRPC metadata of a stream (names in lower case)."""
    ignored: list[str] = []

    def read(name: str, convert: Callable[[str], T]) -> T | None:
        value = metadata.get(name)
        if value is None:
            return None
        try:
            return convert(value.strip().lower())
        except (ValueError, KeyError):
            ignored.append(name)
            return None

    return RouteSettings(
        enabled=read("x-memory-enabled", _SWITCH.__getitem__),
        auto_store=read("x-memory-auto-store", _SWITCH.__getitem__),
        limit=read("x-memory-limit", _limit),
        threshold=read("x-memory-threshold", _threshold),
        types=read("x-memory-types", lambda value: _types(value.split(","))),
        position=read("x-memory-position", Position),
        ignored=tuple(ignored),
    )


def policy_for(file: MemoryConfig, route: RouteSettings, body: BodySettings, *, opted_out: bool) -> Policy:
    """Merge the three levels. Values of the body that do not fit are passed over, as if they were not there."""
    recall = file.enabled and route.enabled is not False and body.enabled is not False and not opted_out
    auto_store = file.auto_store and route.auto_store is not False and body.auto_store is not False
    limit = _first(_fitting(body.retrieval_limit, _limit), route.limit, file.default_retrieval_limit)
    threshold = _first(
        _fitting(body.similarity_threshold, _threshold), route.threshold, file.default_similarity_threshold
    )
    options = RecallOptions(
        limit=min(limit, file.recall.max_limit),
        threshold=threshold,
        types=_fitting(body.memory_types, _types) or route.types,
        position=route.position or file.recall.position,
    )
    return Policy(recall=recall, retain=recall and auto_store, options=options)


def opted_out(headers: Headers, config: IdentityConfig) -> bool:
    """Whether the client switched memory off for this request; any value but a clear "no" counts."""
    values = (value for name in config.opt_out_headers for value in headers.all(name))
    return any(_SWITCH.get(value.strip().lower(), True) for value in values)


def signals(headers: Headers, config: SignalsConfig) -> Signals:
    """What upstream classifiers set."""
    return Signals(
        is_fact=_says_yes(headers, config.fact_header, config),
        requires_tool=_says_yes(headers, config.tool_header, config),
    )


def ends_session(headers: Headers, body: BodySettings, identity: IdentityConfig, config: SignalsConfig) -> bool:
    """Whether the client says that the session is at its end with this turn, in the body or in the header."""
    return body.session_end is True or _says_yes(headers, identity.session_end_header, config)


def _says_yes(headers: Headers, name: str, config: SignalsConfig) -> bool:
    return headers.get(name).strip().lower() in config.truthy


def _limit(value: str | int) -> int:
    limit = int(value)
    if limit < 0:
        raise ValueError(value)
    return limit


def _threshold(value: str | float) -> float:
    threshold = float(value)
    if not -1.0 <= threshold <= 1.0:
        raise ValueError(value)
    return threshold


def _types(names: list[str] | tuple[str, ...]) -> frozenset[MemoryType]:
    types = frozenset(MemoryType(name.strip().lower()) for name in names if name.strip())
    if not types:
        raise ValueError(names)
    return types


S = TypeVar("S")


def _fitting(value: S | None, convert: Callable[[S], T]) -> T | None:
    if value is None:
        return None
    try:
        return convert(value)
    except ValueError:
        return None


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)
