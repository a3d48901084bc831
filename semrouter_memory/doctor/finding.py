"""A finding: one mistake, with its place and the fix. The texts of all findings are in `findings.toml`."""

import tomllib
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
