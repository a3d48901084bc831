"""What is sent part by part: a service that is away for a moment does not end it, one that is not there does."""

import pytest

from semrouter_memory.cli import importing
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Json
from semrouter_memory.resilience import Backoff

LINES = [b"%d\n" % number for number in range(5)]


class Api:
    """Takes parts, except in these calls."""

    def __init__(self, away: range) -> None:
        self._away = away
        self._calls = 0
        self.taken: list[bytes] = []

    def send(self, part: bytes) -> dict[str, Json]:
        self._calls += 1
        if self._calls - 1 in self._away:
            raise UnavailableError("the store is unavailable at present", service=Service.SERVER)
        self.taken.append(part)
        count = part.count(b"\n")
        return {"lines": count, "imported": count, "skipped": 0, "refused": 0, "errors": []}


@pytest.fixture(autouse=True)
def _small_parts_and_short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PART_LINES", 2)
    monkeypatch.setattr(importing, "BACKOFF", Backoff(first=0.001, longest=0.001))


def test_a_part_under_way_is_sent_until_it_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(range(1, importing.ATTEMPTS))
    assert importing.import_lines(LINES, api.send)["imported"] == len(LINES)
    assert api.taken == [b"0\n1\n", b"2\n3\n", b"4\n"]
    assert (
        capsys.readouterr().err.count("the store is unavailable at present; trying again in") == importing.ATTEMPTS - 1
    )


@pytest.mark.parametrize(("away", "taken"), [(range(1), 0), (range(1, 1 + importing.ATTEMPTS), 1)])
def test_a_service_that_stays_away_is_said(away: range, taken: int) -> None:
    """At once where nothing has been sent yet."""
    api = Api(away)
    with pytest.raises(UnavailableError):
        importing.import_lines(LINES, api.send)
    assert len(api.taken) == taken


def test_refused_lines_that_are_not_named_are_counted() -> None:
    def refuse(part: bytes) -> dict[str, Json]:
        count = part.count(b"\n")
        errors = [{"line": line + 1, "param": "content", "message": "is blank"} for line in range(count)]
        return {"lines": count, "imported": 0, "skipped": 0, "refused": count, "errors": errors}

    few = importing.import_lines(LINES, refuse)
    assert list(importing.refusals(few))[-1] == "line 5 (content): is blank"
    many = importing.import_lines([b"\n"] * (importing.MAX_ERRORS + 20), refuse)
    assert list(importing.refusals(many))[-2:] == [
        "line 100 (content): is blank",
        "and 20 more; 100 are named at a time",
    ]
