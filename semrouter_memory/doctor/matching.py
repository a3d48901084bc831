"""Which route takes a request: as much of Envoy's matching as the paths of an LLM API need. Pure.

The answer is None where it is unknown (another header's value, a template of an extension): such a route is checked, and so
are those behind it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from semrouter_memory.doctor.node import Node

_PathTest = Callable[[str, str], bool]


def _below(path: str, prefix: str) -> bool:
    """Whole path segments."""
    return path == prefix or path.startswith(f"{prefix}/")


_CONDITIONS = ("query_parameters", "grpc", "cookies", "runtime_fraction", "tls_context", "dynamic_metadata")
"""What a route may ask for besides path and headers."""
_PATH_TESTS: dict[str, _PathTest] = {"prefix": str.startswith, "path": str.__eq__, "path_separated_prefix": _below}
_TEXT_TESTS: dict[str, _PathTest] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
    "contains": str.__contains__,
}


def text_matches(matcher: Node, text: str) -> bool | None:
    """Whether a StringMatcher takes the text."""
    taken = _first_test(matcher, _TEXT_TESTS, text)
    return regex_matches(matcher.get("safe_regex"), text) if taken is None else taken


def regex_matches(matcher: Node, text: str) -> bool | None:
    """Whether a regular expression takes the whole text."""
    if not matcher:
        return None
    try:
        return re.fullmatch(matcher.get("regex").text, text) is not None
    except (re.error, RecursionError, OverflowError):
        return None


def route_matches(match: Node, method: str, path: str) -> bool | None:
    """Whether a route takes a plain request, which is no upgrade."""
    asks_for_more = any(match.get(name) for name in _CONDITIONS)
    return _all([_path_matches(match, path), takes_headers(match, method), None if asks_for_more else True])


def matching(entries: Iterable[Node], method: str, path: str) -> Iterator[Node]:
    """The routes or rules that a request may end at: all that may take it, up to the first that surely does."""
    for entry in entries:
        is_taken = route_matches(entry.get("match"), method, path)
        if is_taken is not False:
            yield entry
        if is_taken:
            return


def takes_headers(match: Node, method: str, *, upgrade: bool = False) -> bool | None:
    """Whether the route takes a request with that method, and with an `upgrade` header or without."""
    return _all([_header_matches(header, method, upgrade=upgrade) for header in match.items("headers")])


def _all(parts: Sequence[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _first_test(matcher: Node, tests: dict[str, _PathTest], text: str) -> bool | None:
    """The verdict of the only test that a matcher names; None when it names none of them."""
    folds = matcher.get("ignore_case").flag or matcher.get("case_sensitive").flag is False
    fold: Callable[[str], str] = str.lower if folds else str
    wanted = ((test, matcher.get(name)) for name, test in tests.items())
    return next((test(fold(text), fold(node.text)) for test, node in wanted if node), None)


def _path_matches(match: Node, path: str) -> bool | None:
    """Whether a RouteMatch's path part takes a path without a query."""
    taken = _first_test(match, _PATH_TESTS, path)
    if taken is None and not match.get("connect_matcher"):
        return regex_matches(match.get("safe_regex"), path)
    return bool(taken)


def _header_matches(header: Node, method: str, *, upgrade: bool) -> bool | None:
    name, present, exact = header.get("name").text.lower(), header.get("present_match").flag, header.get("exact_match")
    taken: bool | None = None
    if present is not None and name in (":method", "upgrade"):
        taken = present is (upgrade or name == ":method")
    elif name == ":method":
        taken = exact.text == method if exact else text_matches(header.get("string_match"), method)
    return None if taken is None else taken is not bool(header.get("invert_match").flag)
