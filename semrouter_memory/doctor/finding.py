"""What doctor says: one finding for each mistake, with where it stands and what to do about it. Pure."""

from dataclasses import dataclass
from enum import StrEnum


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
        what: what is wrong, and what comes of it.
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


def error(code: str, where: str, what: str, fix: str) -> Finding:
    return Finding(severity=Severity.ERROR, code=code, where=where, what=what, fix=fix)


def warning(code: str, where: str, what: str, fix: str) -> Finding:
    return Finding(severity=Severity.WARNING, code=code, where=where, what=what, fix=fix)
