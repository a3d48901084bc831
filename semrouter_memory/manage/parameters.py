"""Values that a caller selects and describes memories by: times, periods, projects, categories and filters."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, WithJsonSchema

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import ALWAYS, Form, MemoryFilter, Period, filterable, parse_filter
from semrouter_memory.model.filters import MAX_VALUE_CHARS

OneProject = Annotated[
    str | None,
    Field(description='Only this project; "" only memories without a project; without it every project.'),
]


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


def _no_number(value: object) -> object:
    """Digits would be read as seconds since 1970, also those of a date: "20260315"."""
    if isinstance(value, int | float) or (isinstance(value, str) and _is_number(value)):
        raise ValueError("must be a time with its offset from UTC (2026-03-15T10:00:00Z)")
    return value


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdecimal()


UtcTime = Annotated[AwareDatetime, BeforeValidator(_no_number), AfterValidator(_utc)]
"""With any offset from UTC; stored in UTC."""

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?", re.ASCII | re.IGNORECASE
)


def _moment(value: object, *, days: int) -> datetime:
    """The time; of a date, the midnight so many days after it began."""
    found = _RFC_3339.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a date (2026-03-15) or a time with its offset from UTC (2026-03-15T10:00:00Z)")
    time = datetime.fromisoformat(found[0].upper())
    try:
        return _utc(time) if found["time"] else time.replace(tzinfo=UTC) + timedelta(days=days)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


_DATE_OR_TIME = WithJsonSchema({"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]})
Since = Annotated[
    Annotated[datetime, BeforeValidator(partial(_moment, days=0)), _DATE_OR_TIME] | None,
    Field(
        description="Only what was said from then on (`observed_at`): a date in UTC, or a time with its offset (RFC 3339).",
        examples=["2026-03-01"],
    ),
]
Until = Annotated[
    Annotated[datetime, BeforeValidator(partial(_moment, days=1)), _DATE_OR_TIME] | None,
    Field(
        description="Only what was said before that time; of a date, up to its end.",
        examples=["2026-03-31", "2026-04-01T00:00:00Z"],
    ),
]
OneForm = Annotated[Form | None, Field(description="Only quotes, or only statements.")]
OneSource = Annotated[
    str | None,
    Field(description="Only from this source: `conversation`, `session`, `reflection`, `api`, `import`."),
]
IsPinned = Annotated[bool | None, Field(description="Only pinned memories, or only others.")]


def observed_in(since: Since = None, until: Until = None) -> Period:
    """The period from `since` until `until`.

    Raises:
        InvalidRequestError: it ends before it begins.
    """
    period = Period(since or ALWAYS.start, until or ALWAYS.end)
    if period.end <= period.start:
        raise InvalidRequestError("must be later than since", field="until")
    return period


def _category(value: str) -> str:
    value = value.strip()
    if value and not filterable(value):
        raise ValueError(
            f"must have at most {MAX_VALUE_CHARS} characters, printable ones, and no quotation marks, backslashes and braces"
        )
    return value


def _readable(value: str) -> str:
    parse_filter(value)
    return value


Category = Annotated[
    str,
    AfterValidator(_category),
    Field(
        max_length=MAX_VALUE_CHARS,
        description='A category of your own, to filter by; "": none. The same as `metadata.category`.',
        examples=["work"],
    ),
]
FilterText = Annotated[
    str,
    AfterValidator(_readable),
    Field(
        description="Only memories that fulfil all conditions, separated by commas: `category=work`, `metadata.KEY=VALUE` (a text,"
        " number or boolean of the metadata), `min_importance=0.5`. A comma in a value is written %2C.",
        examples=["category=work,metadata.team=core,min_importance=0.5"],
    ),
]


def filter_in(text: Annotated[FilterText, Query(alias="filter")] = "") -> MemoryFilter:
    """The filter of a query parameter."""
    return parse_filter(text)
