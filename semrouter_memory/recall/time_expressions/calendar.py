"""Stretches of the calendar around a moment: the week before last, a month, a season. Pure.

The calendar is UTC's, because the user's zone is unknown. Weeks begin on Monday; seasons are the northern ones, three
whole months each, and a winter is counted to the year in which it begins.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MONTHS_PER_YEAR = 12
MONTHS_PER_QUARTER = 3
UNIT_DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.0, "quarter": 91.0, "year": 365.0}
"""How long a unit is, roughly."""
_SATURDAY = 5
_LEAP_CYCLE = 8


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to but without `end`, both in UTC."""

    start: datetime
    end: datetime


def midnight(now: datetime) -> datetime:
    """When the day began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def days(first: datetime, count: int = 1) -> Period:
    """So many days from that midnight on."""
    return Period(first, first + timedelta(days=count))


def last_days(now: datetime, count: float) -> Period:
    """From the day that was so many days ago to the end of today."""
    return Period(midnight(now - timedelta(days=count)), midnight(now) + timedelta(days=1))


def around(day: datetime, slack_days: int) -> Period:
    """A day and so many days before and after it."""
    return days(day - timedelta(days=slack_days), 2 * slack_days + 1)


def months(year: int, month: int, count: int = 1) -> Period:
    """So many months from this one on. A month below 1 lies in an earlier year."""
    index = year * MONTHS_PER_YEAR + month - 1
    return Period(_first(index), _first(index + count))


def unit_back(unit: str, count: int, today: datetime) -> Period:
    """The whole day, week, weekend, month, quarter or year that lies so many before the one today is in."""
    monday = today - timedelta(days=today.weekday() + 7 * count)
    match unit:
        case "week":
            return days(monday, 7)
        case "weekend":
            return days(monday + timedelta(days=_SATURDAY), 2)
        case "month":
            return months(today.year, today.month - count)
        case "quarter":
            begun = (today.month - 1) // MONTHS_PER_QUARTER - count
            return months(today.year, begun * MONTHS_PER_QUARTER + 1, MONTHS_PER_QUARTER)
        case "year":
            return months(today.year - count, 1, MONTHS_PER_YEAR)
        case _:
            return days(today - timedelta(days=count))


def weekday_back(weekday: int, weeks: int, today: datetime) -> Period:
    """That day (0: Monday) of the calendar's week so many before this one."""
    return days(today + timedelta(days=weekday - today.weekday() - 7 * weeks))


def latest_weekday(weekday: int, today: datetime) -> Period:
    """The last such day before today."""
    return days(today - timedelta(days=(today.weekday() - weekday) % 7 or 7))


def latest_date(month: int, day: int, today: datetime) -> Period | None:
    """The last such day up to today. None for a day that no calendar has."""
    years = range(today.year, today.year - _LEAP_CYCLE - 1, -1)
    return next((found for year in years if (found := date(year, month, day)) and found.start <= today), None)


def date(year: int, month: int, day: int) -> Period | None:
    """That day. None for one that the calendar does not have."""
    try:
        return days(datetime(year, month, day, tzinfo=UTC))
    except ValueError:
        return None


def _first(index: int) -> datetime:
    year, month = divmod(index, MONTHS_PER_YEAR)
    return datetime(year, month + 1, 1, tzinfo=UTC)
