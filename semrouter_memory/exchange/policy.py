"""What applies to one request. Request beats route beats file, but a switch that is off anywhere stays off, and filters add up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from semrouter_memory.codec.base import BodySettings, GivenSettings
from semrouter_memory.codec.settings import SWITCH, Governs, governed_by, route_values
from semrouter_memory.config import IdentityConfig, MemoryConfig, RecallConfig, SignalsConfig
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import (
    OtherOwner,
    OwnerKind,
    Position,
    Reason,
    RecallOptions,
    RenderStyle,
    Scope,
    Signals,
    StrategyName,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings(GivenSettings):
    """Settings of a route, from the gRPC initial metadata that its filter sends.

    Attributes:
        owners: the organisation and the agent of requests that name none.
    """

    position: Position | None = None
    tool_result_tokens: int | None = None
    strategy: StrategyName | None = None
    render: RenderStyle | None = None
    pinned_tokens: int | None = None
    owners: Mapping[OwnerKind, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """The merged settings of one request.

    Attributes:
        refusal: why the request passes without memory, neither recalled nor stored; None when it does not.
    """

    refusal: Reason | None
    retain: bool
    options: RecallOptions


def route_settings(metadata: Mapping[str, str], other: Iterable[str] = ()) -> RouteSettings:
    """Read `x-memory-*` from the gRPC metadata of a stream (names in lower case).

    Args:
        other: names with that prefix that are no settings of a route, as the shared secret's.
    """
    values, unreadable = route_values(metadata, other)
    return RouteSettings(**values, unreadable=unreadable)


def policy_for(file: MemoryConfig, route: RouteSettings, body: BodySettings, *, opted_out: bool) -> Policy:
    """Merge the three levels. What an unreadable setting of the route or the body governs is off."""
    off = governed_by((*route.unreadable, *body.unreadable))
    enabled = file.enabled and route.enabled is not False and body.enabled is not False
    auto_store = file.auto_store and route.auto_store is not False and body.auto_store is not False
    options = RecallOptions(
        limit=_limit(file, route, body),
        threshold=_first(body.similarity_threshold, route.similarity_threshold, file.default_similarity_threshold),
        types=body.memory_types or route.memory_types,
        position=route.position or file.recall.position,
        unreadable=Governs.READING in off,
        tool_result_tokens=0
        if Governs.READING in off
        else _first(route.tool_result_tokens, file.compression.tool_result_tokens),
        strategy=route.strategy,
        render=route.render,
        pinned_tokens=route.pinned_tokens,
        memory_filter=route.memory_filter & body.memory_filter,
        # Who asks for all wants what there is room for, unless a smaller number was asked for.
        overview_limit=file.recall.max_limit if body.retrieval_limit is route.retrieval_limit is None else None,
    )
    refusal = None
    if opted_out:
        refusal = Reason.OPTED_OUT
    elif not enabled:
        refusal = Reason.DISABLED
    elif off is Governs.BOTH:
        refusal = Reason.UNREADABLE_SETTING
    return Policy(refusal, auto_store and Governs.WRITING not in off, options)


def _limit(file: MemoryConfig, route: RouteSettings, body: BodySettings) -> int:
    """How many memories are injected at most: what is asked for, within the bound of the strategy."""
    if (route.strategy or file.recall.strategy) == "keywords":
        default = bound = file.recall.max_keyword_memories
    else:
        default, bound = file.default_retrieval_limit, file.recall.max_limit
    return min(_first(body.retrieval_limit, route.retrieval_limit, default), bound)


def other_owners(
    scopes: Iterable[Scope], file: RecallConfig, route: RouteSettings, body: BodySettings
) -> tuple[OtherOwner, ...]:
    """How much of each owner's memories this request may see: a route says more or less, a body only less."""
    others = []
    for scope in scopes:
        kind, configured = scope.kind, file.shares[scope.kind]
        limit = _lowered(configured.limit, route.limits.get(kind), body.limits.get(kind))
        share = _lowered(configured.budget_share, route.shares.get(kind), body.shares.get(kind))
        if limit and share:
            others.append(OtherOwner(scope, int(min(limit, file.max_limit)), share))
    return tuple(others)


def _lowered(configured: float, route: float | None, body: float | None) -> float:
    allowed = configured if route is None else route
    return allowed if body is None else min(allowed, body)


def opted_out(headers: Headers, config: IdentityConfig) -> bool:
    """Whether the client switched memory off for this request; any value but a clear "no" counts."""
    values = (value for name in config.opt_out_headers for value in headers.all(name))
    return any(SWITCH.get(value.strip().lower(), True) for value in values)


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


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)
