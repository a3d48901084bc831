"""A value of Envoy's configuration with its path. Pure.

Strategy: a missing value is a node, too, and so are its children, so that a check walks down without asking at each step.
A check reads a value as the type that it expects, in every spelling that Envoy 1.40 was seen to take. A value of another
type is noted in `misread` and counts as missing, so that one mistyped field hides no other mistake.
"""

import re
from collections.abc import Sequence
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
            fields = node.fields
            value = fields.get(name, fields.get(_camel_case(name)))
            node = node._child(value, f"{node.path}.{name}" if node.path else name)
        return node

    def items(self, name: str) -> list["Node"]:
        """The items of a repeated field. Envoy takes a value that is no list for the only item of one."""
        node = self.get(name)
        values = node.value if isinstance(node.value, list) else [node.value] if node else []
        return [self._child(value, f"{node.path}[{index}]") for index, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """The items of a repeated field of texts."""
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
        return str(self.fields.get(_TYPE) or "").rpartition("/")[2]

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
        """A switch."""
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
