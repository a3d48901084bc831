"""A finding: one mistake, with its place and the fix; and the mistakes that are one field's value.

`findings.toml` has the texts of all findings, and the rules of these fields with them.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from string import Template
from typing import Any

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


CATALOGUE: dict[str, dict[str, Any]] = tomllib.loads(
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


Figures = Mapping[str, float | str]
"""What limits are compared with and texts show, by name."""

MIB = 1024 * 1024
BODY_MODES = ("NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC")
_HEADER_MODES = ("DEFAULT", "SEND", "SKIP")
_SWITCHES: dict[str, Callable[[Node], bool]] = {
    "on": lambda node: node.flag is True,
    "off": lambda node: node.flag is not True,
    "false": lambda node: node.flag is False,
    "set": lambda node: bool(node.value),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A field, and which of its values are a mistake; `findings.toml` explains the attributes.

    Attributes:
        on: what has the field.
        field: names that lead to it, separated by dots.
    """

    code: str
    on: tuple[str, ...]
    field: str
    wrong: str | list[str] = ""
    unit: str = ""
    below: float | str | None = None
    up_to: float | str | None = None
    above: float | str | None = None
    default: float | None = None
    error_to: float | str | None = None
    unlimited: float | None = None

    def finding(self, node: Node, figures: Figures, values: Mapping[str, object]) -> Finding | None:
        """The finding where the field's value is a mistake."""
        shown: dict[str, Any] = {**figures, "field": self.field.rpartition(".")[2], **values}
        if isinstance(self.wrong, list):
            mode = node.choice(BODY_MODES if self.field.endswith("_body_mode") else _HEADER_MODES)
            return found(self.code, node, value=mode, **shown) if mode in self.wrong else None
        if self.wrong:
            return found(self.code, node, **shown) if _SWITCHES[self.wrong](node) else None
        given = node.seconds if self.unit == "s" else node.number
        value = self.default if given is None else given
        if value is None or value == self.unlimited or not self._is_out_of_bounds(value, figures):
            return None
        severity = None if self.error_to is None else graded(value <= _bound(self.error_to, figures))
        default = " (Envoy's default)" if given is None else ""
        return found(self.code, node, severity, value=sized(value, self.unit), default=default, **shown)

    def _is_out_of_bounds(self, value: float, figures: Figures) -> bool:
        return (
            (self.below is not None and value < _bound(self.below, figures))
            or (self.up_to is not None and value <= _bound(self.up_to, figures))
            or (self.above is not None and value > _bound(self.above, figures))
        )


def _bound(bound: float | str, figures: Figures) -> float:
    return float(figures[bound] if isinstance(bound, str) else bound)


def sized(value: float, unit: str) -> str:
    """A limit as texts show it."""
    return f"{value / MIB:.3g} MiB" if unit == "MiB" else f"{value:g} {unit}".rstrip()


_RULES: dict[str, list[FieldRule]] = {}
for _code, _texts in CATALOGUE.items():
    for _rule in _texts.get("rules", ()):
        for _thing in _rule["on"]:
            _RULES.setdefault(_thing, []).append(FieldRule(code=_code, **_rule))


def broken(on: str, figures: Figures, field: Callable[..., Node], **values: object) -> Iterator[Finding]:
    """The findings of the rules for one thing.

    Args:
        on: what it is.
        field: gives its field that names lead to, one below the other.
        values: further placeholders of the texts.
    """
    for rule in _RULES[on]:
        if finding := rule.finding(field(*rule.field.split(".")), figures, values):
            yield finding
