"""A finding: one mistake, with its place and the fix. The texts of all findings are in `findings.toml`."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from importlib import resources
from string import Template

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


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Errors first."""

    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors


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


class Unit(Enum):
    """What a limit counts; the value is how it is shown."""

    COUNT = "{:g}"
    BYTES = "{:.3g} MiB"
    SECONDS = "{:g} s"

    def shown(self, value: float) -> str:
        return self.value.format(value / MIB if self is Unit.BYTES else value)


MIB = 1024 * 1024


def limit(
    code: str,
    field: Node,
    unit: Unit,
    *,
    below: float,
    default: float | None = None,
    error_to: float | None = None,
    **values: object,
) -> Iterator[Finding]:
    """A finding where one of Envoy's limits is below a bound. A duration of zero is no limit.

    Args:
        default: Envoy's own, where the field is missing; None: no limit.
        error_to: the largest limit that is an error; None: the severity is the catalogue's.
        values: further placeholders, besides `value`, `default` and `name`.
    """
    given = field.seconds if unit is Unit.SECONDS else field.number
    value = default if given is None else given
    if value is None or value >= below or (unit is Unit.SECONDS and value <= 0):
        return
    severity = None if error_to is None else graded(value <= error_to)
    note = " (Envoy's default)" if given is None else ""
    name = field.path.rpartition(".")[2]
    yield found(code, field, severity, value=unit.shown(value), default=note, name=name, **values)
