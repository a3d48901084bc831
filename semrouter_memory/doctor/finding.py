"""A finding: one mistake, with its place and the fix. The texts of all findings are in `findings.toml`.

Most mistakes are a value of one field: a `FieldRule` says which. The others have a function.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from importlib import resources
from string import Template
from typing import NamedTuple

from semrouter_memory.doctor.node import Node


class Severity(StrEnum):
    ERROR = "error"
    """A request fails, a token waits, a user can be another, or memory does not work."""
    WARNING = "warning"
    """Works, but not as well or not as safely as it could; or doctor cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake.

    Attributes:
        code: names the kind of mistake; stable, for scripts.
        where: the path in the YAML, or the address that was tried.
        what: what is wrong, and its effect.
        fix: what to write instead.
    """

    severity: Severity
    code: str
    where: str
    what: str
    fix: str


CATALOGUE: dict[str, dict[str, str]] = tomllib.loads(
    resources.files("semrouter_memory.doctor").joinpath("findings.toml").read_text("utf-8")
)
"""By code: the text under the usual severity, and the fix. What follows a slash tells apart texts of the same code."""


def found(code: str, at: Node | str, severity: Severity | None = None, **values: object) -> Finding:
    """A finding of the catalogue.

    Args:
        severity: where it depends on the value; else the catalogue's.
        values: what the texts' placeholders stand for.
    """
    texts = CATALOGUE[code]
    usual = Severity.ERROR if "error" in texts else Severity.WARNING
    return Finding(
        severity=severity or usual,
        code=code.partition("/")[0],
        where=at if isinstance(at, str) else at.path,
        what=Template(texts[usual]).substitute(values),
        fix=Template(texts["fix"]).substitute(values),
    )


def graded(is_error: bool) -> Severity:  # noqa: FBT001 - reads as a sentence
    """The severity of a finding that is an error only beyond some value."""
    return Severity.ERROR if is_error else Severity.WARNING


Wrong = Mapping[str, object] | bool
"""Whether a value is a mistake; a mapping: it is, with the severity and the placeholders of the text."""


class FieldRule(NamedTuple):
    """A field, and which of its values are a mistake; a missing field has Envoy's default.

    Attributes:
        path: names that lead to the field, separated by dots.
        values: further placeholders of the text.
    """

    code: str
    path: str
    is_wrong: Callable[[Node], Wrong]
    values: Mapping[str, object] = {}


def broken(rules: Iterable[FieldRule], field: Callable[..., Node], **values: object) -> Iterator[Finding]:
    """The findings of these rules.

    Args:
        field: gives the field that names lead to, one below the other.
    """
    for rule in rules:
        names = rule.path.split(".")
        node = field(*names)
        if wrong := rule.is_wrong(node):
            more = wrong if isinstance(wrong, Mapping) else {}
            yield found(rule.code, node, **{"field": names[-1], **values, **rule.values, **more})  # type: ignore[arg-type]


def is_on(node: Node) -> bool:
    return node.flag is True


def is_off(node: Node) -> bool:
    """A switch that is off by default."""
    return node.flag is not True


def is_set(node: Node) -> bool:
    return bool(node.value)


MIB = 1024 * 1024


class Unit(Enum):
    """What a limit counts; the value is how it is shown."""

    COUNT = "{:g}"
    BYTES = "{:.3g} MiB"
    SECONDS = "{:g} s"

    def shown(self, value: float) -> str:
        return self.value.format(value / MIB if self is Unit.BYTES else value)


@dataclass(frozen=True, slots=True)
class Below:
    """A limit of Envoy is a mistake below a bound.

    Attributes:
        default: Envoy's own, where the field is missing; None: no limit.
        error_to: the largest limit that is an error; None: the severity is the catalogue's.
        unlimited: the value that means no limit.
    """

    bound: float
    unit: Unit
    default: float | None = None
    error_to: float | None = field(default=None, kw_only=True)
    unlimited: float | None = field(default=None, kw_only=True)

    def __call__(self, node: Node) -> Wrong:
        given = node.seconds if self.unit is Unit.SECONDS else node.number
        value = self.default if given is None else given
        if value is None or value >= self.bound or value == self.unlimited:
            return False
        return {
            "severity": None if self.error_to is None else graded(value <= self.error_to),
            "value": self.unit.shown(value),
            "default": " (Envoy's default)" if given is None else "",
        }
