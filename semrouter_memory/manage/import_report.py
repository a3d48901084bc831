"""What became of the lines of an import."""

from dataclasses import dataclass, field

from semrouter_memory.errors import InvalidRequestError

MAX_ERRORS = 100
"""Refused lines that a report describes; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class LineError:
    """Why a line was refused; never its content."""

    line: int
    message: str
    field: str | None = None


@dataclass(slots=True)
class ImportReport:
    """What became of the lines so far.

    Attributes:
        lines: how many were read, blank ones left out.
        skipped: known already, or expired.
        errors: the first refused lines.
    """

    lines: int = 0
    imported: int = 0
    skipped: int = 0
    refused: int = 0
    errors: list[LineError] = field(default_factory=list)

    def refuse(self, number: int, error: InvalidRequestError) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(LineError(number, str(error), error.field))

    def __str__(self) -> str:
        return f"{self.imported} imported, {self.skipped} skipped, {self.refused} refused"
