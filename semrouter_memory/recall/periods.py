"""What an expression of time matched, as a period: the week before last, a month, a season. Pure.

Strategy: the patterns name their parts (`n`, `unit`, `weekday`, `month`, `season`, `quarter`, `day`, `year`, `which`),
in English and Chinese alike, and a reader looks at these names only.

The calendar is UTC's, because the user's zone is unknown. Weeks begin on Monday; seasons are the northern ones, three
whole months each, and a winter is counted to the year in which it begins.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.values import MONTH_NUMBERS, NUMBER_WORDS, ORDINALS, WEEKDAY_NUMBERS, han_number
from semrouter_memory.model import Period

MONTHS_PER_YEAR = 12
MONTHS_PER_QUARTER = 3
UNIT_DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.0, "quarter": 91.0, "year": 365.0}
"""How long a unit is, roughly."""
_SATURDAY = 5
_WEEK = timedelta(days=7)
_LEAP_CYCLE = 8
FEW = 7
"""How many "a few" are at most: "the other day" is within the last seven."""

_NUMBERS = NUMBER_WORDS | ORDINALS | {"a": 1, "an": 1, "couple": 2}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12, "春": 3, "夏": 6, "秋": 9, "冬": 12}
_YEARS_BACK = {"last year": 1, "this year": 0, "今年": 0, "去年": 1, "前年": 2, "大前年": 3}
_UNITS = {
    **dict.fromkeys(("小时", "钟头"), "hour"),
    **dict.fromkeys(("天", "日", "night"), "day"),
    **dict.fromkeys(("周", "星期", "礼拜"), "week"),
    "周末": "weekend",
    "月": "month",
    "季度": "quarter",
    "年": "year",
}


def midnight(now: datetime) -> datetime:
    """When the day began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def days(first: datetime, count: int = 1) -> Period:
    """So many days from that midnight on."""
    return Period(first, first + timedelta(days=count))


def until_today(now: datetime, count: float) -> Period:
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
    return next((found for year in years if (found := day_of(year, month, day)) and found.start <= today), None)


def day_of(year: int, month: int, day: int) -> Period | None:
    """That day. None for one that the calendar does not have."""
    try:
        return days(datetime(year, month, day, tzinfo=UTC))
    except ValueError:
        return None


def _first(index: int) -> datetime:
    year, month = divmod(index, MONTHS_PER_YEAR)
    return datetime(year, month + 1, 1, tzinfo=UTC)


def in_brackets(period: Period, *, chinese: bool) -> str:
    """The period as it is added to a text; "" for one that has no short name."""
    date = _chinese_date(period) if chinese else _date(period)
    return date and (f"（{date}）" if chinese else f" ({date})")


def _date(period: Period) -> str:
    """A day, up to seven days, one or three whole months, or a whole year, in words; "" for any other period."""
    start, last = period.start, period.end - timedelta(days=1)
    match _whole_months(period):
        case 1:
            return f"{start:%B %Y}"
        case 3:
            return f"{start:{'%B' if start.year == last.year else '%B %Y'}} to {last:%B %Y}"
        case 12:
            return f"{start:%Y}"
    if last <= start:
        return f"{start:%-d %B %Y}"
    first = f"{start:{'%-d' if start.month == last.month else '%-d %B'}}"
    return f"{first} to {last:%-d %B %Y}" if last - start < _WEEK else ""


def _chinese_date(period: Period) -> str:
    """Same as `_date`, in Chinese."""
    start, last = period.start, period.end - timedelta(days=1)
    match _whole_months(period):
        case 1:
            return f"{start.year}年{start.month}月"
        case 3:
            final = f"{last.month}月" if start.year == last.year else f"{last.year}年{last.month}月"
            return f"{start.year}年{start.month}月至{final}"
        case 12:
            return f"{start.year}年"
    day = f"{start.year}年{start.month}月{start.day}日"
    if last <= start:
        return day
    return f"{day}至{last.month}月{last.day}日" if last - start < _WEEK else ""


def _whole_months(period: Period) -> int:
    """How many there are; 0 where it does not begin and end with a month."""
    start, end = period.start, period.end
    years, each = end.year - start.year, end.month - start.month
    return years * MONTHS_PER_YEAR + each if start.day == end.day == 1 else 0


Read = Callable[[re.Match[str], datetime], Period | None]


def _number(said: str) -> int:
    """Digits, an English word, or Chinese below 100."""
    said = said.lower().removeprefix("a ").split()[0].replace("俩", "两")
    if CJK.match(said):
        return han_number(said)
    return int(said) if said.isdecimal() else _NUMBERS[said]


def _unit(said: str) -> str:
    said = said.lower().removeprefix("个")
    return _UNITS.get(said, said)


def _weekday(said: str) -> int:
    """0 is Monday."""
    return WEEKDAY_NUMBERS[said.lower()[:3]]


def _month(said: str) -> int:
    return _number(said) if CJK.match(said) or said.isdecimal() else MONTH_NUMBERS[said.lower()[:3]]


def _year(said: str | None, today: datetime) -> int | None:
    said = " ".join((said or "").lower().split())
    if said in _YEARS_BACK:
        return today.year - _YEARS_BACK[said]
    return int(said) if said else None


def ago(match: re.Match[str], now: datetime) -> Period:
    unit, today = _unit(match["unit"]), midnight(now)
    said = match["n"]
    if not said:
        step = timedelta(days=max(UNIT_DAYS[unit], 1))
        return Period(today - FEW * step, today - step + timedelta(days=1))
    if _is_half(said):
        half = int(UNIT_DAYS[unit] / 2)
        return around(today - timedelta(days=half), max(half // 12, 3)) if half else days(today)
    if unit == "hour":
        return days(midnight(now - timedelta(hours=_number(said))))
    if unit == "week":
        return around(today - timedelta(weeks=_number(said)), 3)
    return unit_back(unit, _number(said), today)


def rolling(match: re.Match[str], now: datetime) -> Period:
    """So many units up to now; without a number one, and without a count "a few"."""
    found = match.groupdict()
    said = found.get("n") or "one"
    count = FEW if found.get("few") else 0.5 if _is_half(said) else _number(said)
    return until_today(now, count * UNIT_DAYS[_unit(match["unit"])])


def _is_half(said: str) -> bool:
    return said.lower().startswith(("half", "半"))


def counted_back(count: int) -> Read:
    """The calendar's unit so many back, or the weekday in that week."""

    def read(match: re.Match[str], now: datetime) -> Period:
        found, today = match.groupdict(), midnight(now)
        if weekday := found.get("weekday"):
            return weekday_back(_weekday(weekday), count, today)
        return unit_back(_unit(match["unit"]), count, today)

    return read


def days_back(count: int) -> Read:
    return lambda _, now: days(midnight(now) - timedelta(days=count))


def last_days(count: int) -> Read:
    return lambda _, now: until_today(now, count)


def last_night(_: re.Match[str], now: datetime) -> Period:
    return days(midnight(now) - timedelta(hours=12))


def last_weekday(match: re.Match[str], now: datetime) -> Period:
    return latest_weekday(_weekday(match["weekday"]), midnight(now))


def to_come(_: re.Match[str], __: datetime) -> None:
    return None


def whole_year(match: re.Match[str], now: datetime) -> Period:
    return months(_year(match["year"], now) or now.year, 1, MONTHS_PER_YEAR)


def dated(match: re.Match[str], now: datetime) -> Period | None:
    """A day of a month, with or without a year."""
    year, month, day = _year(match["year"], now), _month(match["month"]), _number(match["day"])
    if year is None:
        return latest_date(month, day, midnight(now))
    return day_of(year, month, day)


def named(match: re.Match[str], now: datetime) -> Period:
    """A month, quarter or season: of a year, the latest that has begun, or the "last" one, which is over."""
    found = match.groupdict()
    first, count = _part_of_year(found)
    year = _year(found.get("year"), now)
    if year is not None:
        return months(year, first, count)
    year = now.year if first <= now.month else now.year - 1
    is_over = now >= months(year, first, count).end
    which = (found.get("which") or "").lower()
    if which == "this" and is_over:
        year = now.year
    elif which not in {"this", ""} and not is_over:
        year -= 1
    return months(year, first, count)


def _part_of_year(found: dict[str, str | None]) -> tuple[int, int]:
    """Its first month, and how many months it has."""
    if month := found.get("month"):
        return _month(month), 1
    if quarter := found.get("quarter") or found.get("nth"):
        return _number(quarter) * MONTHS_PER_QUARTER - 2, MONTHS_PER_QUARTER
    return _SEASONS[(found.get("season") or "").lower()], MONTHS_PER_QUARTER
