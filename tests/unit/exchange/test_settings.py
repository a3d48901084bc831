"""A setting that cannot be read, of the body or of the route, switches off what it governs, and nothing else."""

from typing import Any

import pytest

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.codec.settings import Governs
from semrouter_memory.config import Config
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings, policy_for, route_settings
from semrouter_memory.exchange.replies import NeedRecall, ReplaceBody
from semrouter_memory.model import Reason, RecallResult

from .conftest import RECALL, RETAIN, SINGLE, MakeExchange, answer, body, chat, request_headers, response_headers

BOTH, READING, WRITING, ITSELF = Governs.BOTH, Governs.READING, Governs.WRITING, Governs.ITSELF
SWITCHES = ["false", "no", 0, 1, [], {}, 0.0]
BODY: list[tuple[str, str, list[Any], Governs]] = [
    ("memory_config", "enabled", SWITCHES, BOTH),
    ("memory_config", "auto_store", SWITCHES, WRITING),
    ("memory_config", "memory_types", ["semantic", ["nonsense"], ["semantic", "nonsense"], [7], [], {}, 1], READING),
    ("memory_config", "retrieval_limit", [-1, "3", True, 2.5, [3], 1e300 * -1], READING),
    ("memory_config", "similarity_threshold", [1.01, -2, "0.6", True, []], READING),
    ("memory_config", "org_limit", [-1, "3", True], READING),
    ("memory_config", "org_share", [-0.1, 1.01, "0.5", True], READING),
    ("memory_config", "agent_limit", [-1, 2.5], READING),
    ("memory_config", "agent_share", [2, []], READING),
    ("memory_config", "filter", ["work", "team=core", "min_importance=2", ["category=work"], {}, 1], READING),
    ("memory_config", "session_end", ["true", 1], ITSELF),
    ("memory_config", "enable", [False, True], BOTH),
    ("memory_context", "user_id", [7, ["alice"], {"id": "alice"}, False], BOTH),
    ("memory_context", "project_id", [7, ["p"]], BOTH),
    ("memory_context", "agent_id", ["a"], BOTH),
]
ROUTE: list[tuple[str, list[str], Governs]] = [
    ("x-memory-enabled", ["", "f", "disabled", "flase"], BOTH),
    ("x-memory-auto-store", ["", "never"], WRITING),
    ("x-memory-limit", ["many", "-1", "2.5"], READING),
    ("x-memory-threshold", ["high", "2", "nan"], READING),
    ("x-memory-types", ["facts", "semantic,facts", ","], READING),
    ("x-memory-filter", ["work", "category=", 'category=a"b', "metadata.form=quote", "min_importance=high"], READING),
    ("x-memory-position", ["top"], READING),
    ("x-memory-strategy", ["", "keyword", "semantic,hybrid"], READING),
    ("x-memory-render", ["", "html"], READING),
    ("x-memory-pinned-tokens", ["", "few", "-1", "2.5"], READING),
    ("x-memory-org-limit", ["many", "-1"], READING),
    ("x-memory-org-share", ["half", "1.5", "nan"], READING),
    ("x-memory-agent-limit", ["2.5"], READING),
    ("x-memory-agent-share", ["-0.1"], READING),
    ("x-memory-autostore", ["false"], BOTH),
]


def outcome(make: MakeExchange, fields: dict[str, Any], route: RouteSettings | None = None) -> Governs:
    """What of memory worked for a request, in a single filter; the two filters must agree with it."""
    single, recall, retain = (make(route=route) for _ in range(3))
    working = ITSELF
    step = opened(single, SINGLE, fields)
    if isinstance(step, NeedRecall):
        working |= ITSELF if step.request.options.unreadable else READING
        single.recalled(RecallResult(reason=Reason.INJECTED))
    else:
        assert single.refusal is Reason.UNREADABLE_SETTING
        assert isinstance(step, ReplaceBody) == bool(fields), "our fields are taken out"
    assert isinstance(opened(recall, RECALL, fields), NeedRecall) == isinstance(step, NeedRecall)
    opened(retain, RETAIN, fields)
    turns = []
    for exchange in (single, retain):
        exchange.receive(response_headers())
        exchange.receive(answer("$10"))
        turns.append(exchange.take_turn())
    assert (turns[0] is None) == (turns[1] is None)
    return working if turns[0] is None else working | WRITING


def opened(exchange: Exchange, protocol: Any, fields: dict[str, Any]) -> Any:
    exchange.receive(request_headers(protocol))
    return exchange.receive(body(chat("What is my budget?", **fields)))


@pytest.mark.parametrize(
    ("field", "name", "value", "governs"),
    [(field, name, value, governs) for field, name, values, governs in BODY for value in values],
)
def test_the_body(make_exchange: MakeExchange, field: str, name: str, value: Any, governs: Governs) -> None:
    assert outcome(make_exchange, {field: {name: value}}) == BOTH & ~governs


@pytest.mark.parametrize(("field", "name", "values", "governs"), BODY)
def test_null_is_as_good_as_absent(
    make_exchange: MakeExchange, field: str, name: str, values: list[Any], governs: Governs
) -> None:
    known = name not in ("enable", "agent_id")
    assert values
    assert outcome(make_exchange, {field: {name: None}}) == (BOTH if known else BOTH & ~governs)


@pytest.mark.parametrize("field", ["memory_config", "memory_context"])
@pytest.mark.parametrize("value", [1, "text", [], [{}], True])
def test_a_field_that_is_no_object(make_exchange: MakeExchange, field: str, value: Any) -> None:
    assert outcome(make_exchange, {field: value}) == ITSELF


def test_two_settings_together(make_exchange: MakeExchange) -> None:
    config = {"memory_types": ["nonsense"], "auto_store": "false"}
    assert outcome(make_exchange, {"memory_config": config}) == ITSELF


@pytest.mark.parametrize(
    ("name", "value", "governs"), [(name, value, governs) for name, values, governs in ROUTE for value in values]
)
def test_a_route(make_exchange: MakeExchange, name: str, value: str, governs: Governs) -> None:
    route = route_settings({name: value, "x-other": "z"})
    assert outcome(make_exchange, {}, route) == BOTH & ~governs
    assert len(route.unreadable) == 1


@pytest.mark.parametrize(("value", "works"), [("TRUE", BOTH), ("on", BOTH), ("FALSE", READING), ("No", READING)])
def test_a_switch_of_a_route_is_read_in_any_case(make_exchange: MakeExchange, value: str, works: Governs) -> None:
    route = route_settings({"x-memory-auto-store": value})
    assert (outcome(make_exchange, {}, route), route.unreadable) == (works, ())


def test_what_the_request_says_does_not_mend_its_route(make_exchange: MakeExchange) -> None:
    route = route_settings({"x-memory-limit": "many"})
    assert outcome(make_exchange, {"memory_config": {"retrieval_limit": 3}}, route) == WRITING


def test_names_beside_the_settings_can_be_told_from_them() -> None:
    metadata = {"x-memory-secret": "s", "x-memory-types": " Semantic, episodic", "x-memory-limit": "3"}
    assert route_settings(metadata, ("x-memory-secret",)).unreadable == ()
    assert route_settings(metadata).unreadable == ("x-memory-unknown",)


def test_who_asks_for_all_may_be_given_more_unless_a_number_is_asked_for() -> None:
    file = Config().memory

    def limit(route: RouteSettings, body: BodySettings) -> int:
        return policy_for(file, route, body, opted_out=False).options.of_overview().limit

    assert limit(RouteSettings(), BodySettings()) == file.recall.max_limit > file.default_retrieval_limit
    assert limit(RouteSettings(retrieval_limit=4), BodySettings()) == 4
    assert limit(RouteSettings(retrieval_limit=4), BodySettings(retrieval_limit=3)) == 3
