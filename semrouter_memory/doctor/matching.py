"""Which route takes a request: as much of Envoy's matching as the paths of an LLM API need. Pure.

What cannot be told (another header's value, a template of an extension) counts as "perhaps": such a route is looked at,
and so are those behind it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from semrouter_memory.doctor.place import At


class Match(Enum):
    NO = 0
    PERHAPS = 1
    YES = 2


def text_matches(matcher: At | None, text: str) -> bool | None:
    """Whether a StringMatcher takes the text; None: it cannot be told."""
    if matcher is None:
        return None
    fold = str.lower if matcher.value("ignore_case") else str
    tests: dict[str, Callable[[str, str], bool]] = {
        "exact": str.__eq__,
        "prefix": str.startswith,
        "suffix": str.endswith,
        "contains": str.__contains__,
    }
    for name, test in tests.items():
        wanted = matcher.value(name)
        if wanted is not None:
            return bool(test(fold(text), fold(wanted)))
    return regex_matches(matcher.get("safe_regex"), text)


def path_matches(match: At, path: str) -> Match:
    """What the path part of a RouteMatch says to a path without a query."""
    sensitive = match.value("case_sensitive")
    fold = str.lower if sensitive is False else str
    for name, test in _PATH_TESTS.items():
        wanted = match.value(name)
        if wanted is not None:
            return Match.YES if test(fold(path), fold(wanted)) else Match.NO
    if match.get("connect_matcher") is not None:
        return Match.NO
    taken = regex_matches(match.get("safe_regex"), path)
    return Match.PERHAPS if taken is None else Match.YES if taken else Match.NO


def route_matches(match: At | None, method: str, path: str) -> Match:
    """Whether a route takes a plain request, which is no upgrade."""
    if match is None:
        return Match.PERHAPS
    verdicts = [path_matches(match, path), *(_header_matches(header, method) for header in match.all("headers"))]
    if match.value("query_parameters") or match.get("grpc") is not None or match.value("cookies"):
        verdicts.append(Match.PERHAPS)
    return min(verdicts, key=lambda verdict: verdict.value)


def takers(routes: Iterable[At], method: str, path: str) -> Iterator[At]:
    """The routes that a request may end at: all that perhaps take it, up to the first that surely does."""
    for route in routes:
        verdict = route_matches(route.get("match"), method, path)
        if verdict is not Match.NO:
            yield route
        if verdict is Match.YES:
            return


def excludes_upgrades(match: At | None) -> bool:
    """Whether the route refuses requests that carry an `upgrade` header."""
    for header in match.all("headers") if match is not None else ():
        present = header.value("present_match")
        if header.value("name").lower() == "upgrade" and present is not None:
            return bool(present) is bool(header.value("invert_match"))
    return False


def only_method(match: At | None, method: str) -> bool:
    """Whether the route takes that method and no other."""
    headers = match.all("headers") if match is not None else []
    return any(
        header.value("name") == ":method" and _exact(header) == method and not header.value("invert_match")
        for header in headers
    )


def _header_matches(header: At, method: str) -> Match:
    name = header.value("name").lower()
    if name == ":method":
        taken = _method_matches(header, method)
    elif name == "upgrade" and header.value("present_match") is not None:
        taken = not header.value("present_match")
    else:
        return Match.PERHAPS
    if taken is None:
        return Match.PERHAPS
    return Match.YES if taken is not bool(header.value("invert_match")) else Match.NO


def _method_matches(header: At, method: str) -> bool | None:
    if header.value("present_match") is not None:
        return bool(header.value("present_match"))
    exact = header.value("exact_match")
    return exact == method if exact is not None else text_matches(header.get("string_match"), method)


def _exact(header: At) -> str | None:
    matcher = header.get("string_match")
    wanted = header.value("exact_match") if matcher is None else matcher.value("exact")
    return wanted if isinstance(wanted, str) else None


def regex_matches(regex: At | None, text: str) -> bool | None:
    """Whether a RegexMatcher takes the whole text; None: it cannot be told."""
    if regex is None:
        return None
    try:
        return re.fullmatch(regex.value("regex"), text) is not None
    except (re.error, RecursionError, OverflowError):
        return None


def _below(path: str, prefix: str) -> bool:
    """Whole path segments."""
    return path == prefix or path.startswith(f"{prefix}/")


_PATH_TESTS: dict[str, Callable[[str, str], bool]] = {
    "prefix": str.startswith,
    "path": str.__eq__,
    "path_separated_prefix": _below,
}
