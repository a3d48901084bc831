"""Checks of the rules of a JWT filter: it verifies the requests that they match, and no others. Pure.

Strategy: a request's path is matched with the routes, then with the rules in their order, up to the first that surely
takes it; each of these rules must require a token. A requirement that a route names replaces the rules.
"""

from collections.abc import Iterator

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import API_PATH, CHAT_PATHS, GatewayRoute, HttpFilterChain, config_of
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.matching import matching
from semrouter_memory.doctor.node import Node


def tokens_are_required(context: CheckContext, chain: HttpFilterChain, entry: Node) -> Iterator[Finding]:
    """A token is required on every path where memories are.

    Args:
        entry: the JWT filter.
    """
    config = config_of(entry)
    if config.get("filter_state_rules"):
        return
    for method, path, routes in _memory_paths(context, chain):
        exempt = [place for route in routes if (place := _exemption(entry, route, method, path))]
        if not any(chain.hosts) and not _rules_require(config, method, path):
            exempt.append(config.get("rules"))
        if exempt:
            yield found("authentication-off/rules", exempt[0], path=path)


def _memory_paths(context: CheckContext, chain: HttpFilterChain) -> Iterator[tuple[str, str, list[GatewayRoute]]]:
    for path in CHAT_PATHS:
        routes = [route for route in chain.matching_routes("POST", path) if route.has_memory]
        if routes or (chain.memory and not any(chain.hosts)):
            yield "POST", path, routes
    if api := context.api_routes(chain):
        yield "GET", f"{API_PATH}/x", api


def _exemption(entry: Node, route: GatewayRoute, method: str, path: str) -> Node | None:
    """Where the route is exempt from a token; None: it requires one."""
    override, config = route.override_for(entry), config_of(entry)
    if override.get("disabled").flag:
        return None  # authentication_covers_memory reports that
    if named := override.get("requirement_name").text:
        requirement = config.entries("requirement_map").get(named, Node(None))
        return None if _requires(requirement, config) else override.get("requirement_name")
    return None if _rules_require(config, method, path) else config.get("rules")


def _rules_require(config: Node, method: str, path: str) -> bool:
    rules = list(matching(config.items("rules"), method, path))
    return bool(rules) and all(_requires(_requirement(rule, config), config) for rule in rules)


def _requirement(rule: Node, config: Node) -> Node:
    named = rule.get("requirement_name").text
    return config.entries("requirement_map").get(named, Node(None)) if named else rule.get("requires")


def _requires(requirement: Node, config: Node) -> bool:
    """Whether a request without a token is refused."""
    if alternatives := requirement.get("requires_any"):
        each = alternatives.items("requirements")
        return bool(each) and all(_requires(one, config) for one in each)
    if together := requirement.get("requires_all"):
        return any(_requires(one, config) for one in together.items("requirements"))
    return bool(requirement.get("provider_name").text or requirement.get("provider_and_audiences"))
