"""Checks of what a JWT filter asks for: it verifies what its rules match, and nothing else.

Strategy: the request's paths are walked through the routes, then through the rules in their order, up to the first that
surely takes them; each of them must ask for a token. What a route names itself takes the rules' place.
"""

from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import API_PATH, CHAT_PATHS, Chain, Route
from semrouter_memory.doctor.finding import Finding, error
from semrouter_memory.doctor.matching import Match, route_matches
from semrouter_memory.doctor.place import At


def tokens_are_asked_for(case: Case, chain: Chain, entry: At, config: At) -> Iterator[Finding]:
    """On every path where memories are.

    Args:
        entry: the JWT filter.
        config: what it is configured with.
    """
    if config.get("filter_state_rules") is not None:
        return
    for method, path, routes in _asked(case, chain):
        where = next((at for route in routes if (at := _lets_through(config, entry, route, method, path))), None)
        if where is not None or (not any(chain.hosts) and not _rules_ask(config, method, path)):
            yield error(
                "authentication-off",
                where or config.where("rules"),
                f"no rule asks for a token on {path}: whoever sends none is let through, and claims are read from none",
                "rules: [{match: {prefix: /}, requires: {provider_name: ...}}], without allow_missing",
            )


def _asked(case: Case, chain: Chain) -> Iterator[tuple[str, str, list[Route]]]:
    for path in CHAT_PATHS:
        routes = [route for route in chain.takers("POST", path) if route.remembers]
        if routes or (chain.memory and not any(chain.hosts)):
            yield "POST", path, routes
    api = case.api_routes(chain)
    if api:
        yield "GET", f"{API_PATH}/x", api


def _lets_through(config: At, entry: At, route: Route, method: str, path: str) -> str | None:
    """Where it is said that the route needs no token; None: it needs one."""
    override = route.configured(entry.value("name"))
    if override is not None and override.value("disabled"):
        return None  # said already
    named = override.value("requirement_name") if override is not None else None
    if override is not None and named:
        return None if _demands(_named(config, named), config) else override.where("requirement_name")
    return None if _rules_ask(config, method, path) else config.where("rules")


def _rules_ask(config: At, method: str, path: str) -> bool:
    taken = []
    for rule in config.all("rules"):
        verdict = route_matches(rule.get("match"), method, path)
        if verdict is not Match.NO:
            taken.append(rule)
        if verdict is Match.YES:
            break
    return bool(taken) and all(_demands(_required(rule, config), config) for rule in taken)


def _required(rule: At, config: At) -> At | None:
    named = rule.value("requirement_name")
    return _named(config, named) if named else rule.get("requires")


def _named(config: At, name: str) -> At | None:
    message = (config.value("requirement_map") or {}).get(name)
    return None if message is None else At(message, config.where("requirement_map"), config.opened_at)


def _demands(requirement: At | None, config: At) -> bool:
    """Whether a request without a token is refused."""
    if requirement is None:
        return False
    alternatives, together = requirement.get("requires_any"), requirement.get("requires_all")
    if alternatives is not None:
        each = alternatives.all("requirements")
        return bool(each) and all(_demands(one, config) for one in each)
    if together is not None:
        return any(_demands(one, config) for one in together.all("requirements"))
    return bool(requirement.value("provider_name")) or requirement.get("provider_and_audiences") is not None
