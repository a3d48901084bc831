"""What the fault suite has in common: how large a fault is, and the figures that it leaves.

`make test` runs a reduced round of each fault, `make faults` all of it (SEMROUTER_MEMORY_FAULTS=full). The figures are printed
where they are measured, again in a table at the end, and written to `.run/faults.json`.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

FULL = os.environ.get("SEMROUTER_MEMORY_FAULTS") == "full"
_FILE = Path(__file__).parents[2] / ".run" / "faults.json"
_T = TypeVar("_T")
_told: dict[str, dict[str, float | str]] = {}

Figures = Callable[..., None]


def sized(reduced: _T, full: _T) -> _T:
    """The size of a fault: one for every run of the tests, one for `make faults`."""
    return full if FULL else reduced


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Takes the figures of the test's fault, by name."""
    fault = request.node.name.removeprefix("test_").replace("_", " ")

    def tell(**values: float | str) -> None:
        rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}
        _told.setdefault(fault, {}).update(rounded)
        print(f"\n{fault}: {_line(rounded)}")  # noqa: T201 - figures are to be seen while they are measured

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _told:
        return
    terminalreporter.section("faults" if FULL else "faults, reduced (make faults runs all of them)")
    for fault, values in _told.items():
        terminalreporter.write_line(f"{fault}\n    {_line(values)}")
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps({"size": sized("reduced", "full"), "faults": _told}, indent=2) + "\n", encoding="utf-8")


def _line(values: dict[str, float | str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
