"""A value of Envoy's configuration with its path, and what the matchers among them take. Pure.

Strategy: a missing value is a node, too, and so are its children, so that a check walks down without asking at each step.
A check reads a value as the type that it expects, in every spelling that Envoy 1.40 was seen to take. A value of another
type is noted in `misread` and counts as missing, so that one mistyped field hides no other mistake.

Of Envoy's matching there is as much as the paths of an LLM API need. The answer is None where it is unknown (another header's
value, a template of an extension): such a route is checked, and so are those behind it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")

_TYPE = "@type"
_SWITCH = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0"), False
)
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][-+]?\d{1,2})?")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value and where it is.

    Attributes:
        value: a mapping, a list or text; None when the value is missing.
        misread: what could not be read as the type that a check expects, by path; shared by all nodes of a file.
    """

    value: Any
    path: str = ""
    misread: dict[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *names: str) -> "Node":
        """The field that these names lead to, one below the other; both of Envoy's spellings of a name are found."""
        node = self
        for name in names:
            node = node._field(name)
        return node

    def items(self, name: str) -> list["Node"]:
        """The items of a repeated field. Envoy takes a value that is no list for the only item of one."""
        node = self.get(name)
        values = node.value if isinstance(node.value, list) else [node.value] if node else []
        return [self._child(value, f"{node.path}[{index}]") for index, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        return [item.text for item in self.items(name)]

    def entries(self, name: str) -> dict[str, "Node"]:
        """The values of a map by their keys."""
        node = self.get(name)
        return {str(key): self._child(value, f'{node.path}["{key}"]') for key, value in node.fields.items()}

    @property
    def fields(self) -> dict[Any, Any]:
        """The mapping as it is in the file."""
        if isinstance(self.value, dict):
            return self.value
        if self:
            self._note("a mapping")
        return {}

    @property
    def type(self) -> str:
        """The full name of the message's type, when one is given."""
        given = self.fields.get("type_url" if self._is_struct else _TYPE)
        return str(given or "").rpartition("/")[2]

    @property
    def kind(self) -> str:
        """The message's name, whatever its package's version."""
        return self.type.rpartition(".")[2]

    @property
    def text(self) -> str:
        """A text; "" when it is missing."""
        if isinstance(self.value, dict | list):
            self._note("text")
        return "" if not self or isinstance(self.value, dict | list) else str(self.value)

    @property
    def flag(self) -> bool | None:
        found = _SWITCH.get(str(self.value).lower())
        return self._read(found, "true or false")

    @property
    def number(self) -> int | None:
        """A whole number, with an exponent or not."""
        number = Decimal(str(self.value)) if _NUMBER.fullmatch(str(self.value)) else None
        whole = number is not None and number == number.to_integral_value()
        return self._read(int(number) if whole and number is not None else None, "a whole number")

    @property
    def seconds(self) -> float | None:
        """A duration; Envoy knows no unit but seconds."""
        fits = _DURATION.fullmatch(str(self.value))
        return self._read(float(str(self.value)[:-1]) if fits else None, 'a duration in seconds, such as "1.5s"')

    def choice(self, names: Sequence[str]) -> str:
        """A value of an enumeration, by its name in any case or by its number; the first name when it is missing."""
        numbered = {str(number): name for number, name in enumerate(names)} | {name: name for name in names}
        return self._read(numbered.get(str(self.value).upper()), f"one of {', '.join(names)}") or names[0]

    @property
    def _is_struct(self) -> bool:
        """Whether it is a TypedStruct, another spelling of a message: its type and its fields are values of the struct's."""
        return isinstance(self.value, dict) and str(self.value.get(_TYPE)).endswith(".TypedStruct")

    def _field(self, name: str) -> "Node":
        fields, path = self.fields, self.path
        if self._is_struct:
            path = f"{path}.value"
            fields = self._child(fields.get("value"), path).fields
        value = fields.get(name, fields.get(_camel_case(name)))
        return self._child(value, f"{path}.{name}" if path else name)

    def _child(self, value: Any, path: str) -> "Node":
        return Node(value, path, self.misread)

    def _read(self, found: _T | None, needed: str) -> _T | None:
        if found is None and self:
            self._note(needed)
        return found

    def _note(self, needed: str) -> None:
        """The value itself may be a secret."""
        self.misread[self.path] = f"needs {needed}"


def first(nodes: Sequence[Node]) -> Node:
    """The first node that is not missing; the last of them when all are."""
    return next((node for node in nodes if node), nodes[-1])


@cache
def _camel_case(name: str) -> str:
    """Envoy's other spelling of a field's name. The names are those that the checks know."""
    return re.sub("_(.)", lambda found: found[1].upper(), name)


# -- matchers ----------------------------------------------------------------------------------------------------------

_PathTest = Callable[[str, str], bool]


def _below(path: str, prefix: str) -> bool:
    """Whole path segments."""
    return path == prefix or path.startswith(f"{prefix}/")


_EXAMPLES = (
    (re.compile(r"\(\?:"), "("),
    (re.compile(r"\(([^()|]*)(?:\|[^()]*)?\)"), r"\1"),
    (re.compile(r"(?:\[[^]]*\]|\.|\\w)\*"), ""),
    (re.compile(r"(?:\[[^]]*\]|\.|\\w)(?:\+|\{1,\d*\})"), "x"),
)
"""What stands for a part of a regular expression in a path that it takes: the first of several, any name for a name."""
_BEGINNING = re.compile(r"\^?([\w/.~-]*)(?![?*{+])")
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
    return all_of([path_matches(match, path), takes_headers(match, method), None if asks_for_more else True])


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
    return all_of([_header_matches(header, method, upgrade=upgrade) for header in match.items("headers")])


def all_of(parts: Sequence[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def any_of(parts: Sequence[bool | None]) -> bool | None:
    if True in parts:
        return True
    return None if None in parts else False


def _first_test(matcher: Node, tests: dict[str, _PathTest], text: str) -> bool | None:
    """The verdict of the only test that a matcher names; None when it names none of them."""
    folds = matcher.get("ignore_case").flag or matcher.get("case_sensitive").flag is False
    fold: Callable[[str], str] = str.lower if folds else str
    wanted = ((test, matcher.get(name)) for name, test in tests.items())
    return next((test(fold(text), fold(node.text)) for test, node in wanted if node), None)


def path_matches(match: Node, path: str) -> bool | None:
    """Whether a RouteMatch's path part takes a path without a query."""
    taken = _first_test(match, _PATH_TESTS, path)
    if taken is None and not match.get("connect_matcher"):
        return regex_matches(match.get("safe_regex"), path)
    return bool(taken)


def start_of_paths(match: Node) -> str:
    """How the paths that a RouteMatch takes begin, as far as it says; of a regular expression, some of them."""
    literal = next((match.get(name).text for name in _PATH_TESTS if match.get(name)), "")
    pattern = match.get("safe_regex", "regex").text
    for found, example in _EXAMPLES:
        pattern = found.sub(example, pattern)
    beginning = _BEGINNING.match(pattern)
    return literal or (beginning[1] if beginning else "")


def _header_matches(header: Node, method: str, *, upgrade: bool) -> bool | None:
    name, present, exact = header.get("name").text.lower(), header.get("present_match").flag, header.get("exact_match")
    taken: bool | None = None
    if present is not None and name in (":method", "upgrade"):
        taken = present is (upgrade or name == ":method")
    elif name == ":method":
        taken = exact.text == method if exact else text_matches(header.get("string_match"), method)
    return None if taken is None else taken is not bool(header.get("invert_match").flag)


# -- RBAC ----------------------------------------------------------------------------------------------------------------
# Permissions and principals are trees of the same kind. A leaf that asks for anything but the one known header is unknown, and
# what depends on it counts as neither refused nor let through.


def rbac_refuses(rules: Node, header: str, value: str) -> bool:
    """Whether a request with that header surely gets 403."""
    policies = [_policy_takes(policy, header, value) for policy in rules.entries("policies").values()]
    action = rules.get("action").choice(("ALLOW", "DENY", "LOG"))
    refusing = {"DENY": True, "ALLOW": False}
    return bool(rules) and action in refusing and any_of(policies) is refusing[action]


def _policy_takes(policy: Node, header: str, value: str) -> bool | None:
    """One of its permissions, one of its principals, and its condition."""
    trees = [
        any_of([_rbac_takes(each, header, value) for each in policy.items(name)])
        for name in ("permissions", "principals")
    ]
    conditions = any(policy.get(name) for name in ("condition", "checked_condition"))
    return all_of([*trees, None if conditions else True])


def _rbac_takes(tree: Node, header: str, value: str) -> bool | None:
    """Whether a permission or a principal takes the request."""
    for combine, name, parts in (
        (all_of, "and_rules", "rules"),
        (all_of, "and_ids", "ids"),
        (any_of, "or_rules", "rules"),
        (any_of, "or_ids", "ids"),
    ):
        if branch := tree.get(name):
            return combine([_rbac_takes(each, header, value) for each in branch.items(parts)])
    for name in ("not_rule", "not_id"):
        if branch := tree.get(name):
            taken = _rbac_takes(branch, header, value)
            return None if taken is None else not taken
    return True if tree.get("any").flag else _header_takes(tree.get("header"), header, value)


def _header_takes(matcher: Node, header: str, value: str) -> bool | None:
    if matcher.get("name").text.lower() != header:
        return None
    if old := matcher.get("safe_regex_match"):
        taken = regex_matches(old, value)
    else:
        taken = text_matches(matcher.get("string_match"), value)
    return None if taken is None else taken is not bool(matcher.get("invert_match").flag)
