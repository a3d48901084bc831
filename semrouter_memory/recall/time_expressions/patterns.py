"""When something was, as a question says it: "last week", "in May", 上个月. Pure.

Strategy: a table of patterns (English, Chinese), each with a reader that turns what it matched into a period. The first
expression in the text that lies in the past counts; of several that begin at one place, the longest. A rule is only
tried on a sentence that has one of its hints, and most sentences have none. Expressions of the
future are in the table so that nothing within them is taken ("next May"). What does not say by itself that it is past
("in May", "this week", "today") counts unless the question looks ahead ("what should I cook today"), and a weekday
alone only next to a verb in the past. Words that are also verbs or names ("may", "march", "fall", "June") need what
makes them a time.

A month, season or date without a year is the latest one that has begun. Periods are whole days; "last night" is noon to
noon, so that it holds in most zones. "Three weeks ago" is the week around that day, "two months ago" and "two years
ago" are the whole month and the whole year.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from semrouter_memory.language.scripts import CJK, in_form
from semrouter_memory.model import Period
from semrouter_memory.recall.time_expressions.readings import (
    FEW,
    Read,
    ago,
    counted_back,
    dated,
    days_back,
    in_brackets,
    last_days,
    last_night,
    last_weekday,
    midnight,
    named,
    rolling,
    to_come,
    whole_year,
)

_MAX_CHARS = 500
"""A longer text is no question about memories: it brings dates of its own."""
_MAX_DATED_CHARS = 1_000
_RECENT_DAYS = 30


class _Tense(Enum):
    CLEAR = auto()
    """Says by itself whether it is past or to come."""
    OPEN = auto()
    """Past unless the question looks ahead."""
    BARE = auto()
    """Past only where the question has a verb in the past."""


class _Rule(NamedTuple):
    """Attributes: hints: one of them is in whatever the pattern matches."""

    tense: _Tense
    hints: frozenset[str]
    pattern: re.Pattern[str]
    read: Read


_N = (
    r"(?P<n>(?<![\d.,])\d{1,3}|half\s+an?|(?:a\s+)?couple(?:\s+of)?|an?|one|two|three|four|five|six|seven|eight|nine"
    r"|ten|eleven|twelve|twenty|thirty)"
)
_SPAN = r"(?P<unit>hour|day|night|week|month|year)s?\b"
_FULL_WEEKDAY = r"monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_WEEKDAY = rf"(?P<weekday>{_FULL_WEEKDAY}|mon|tues?|wed|thurs?|thu|fri|sat|sun)\b(?!\s+of\b)"
_PLAIN_MONTH = (
    r"january|jan|february|feb|april|apr|june|jun|july|jul|august|aug|september|sept?|october|oct|november|nov"
    r"|december|dec"
)
# April's opinion is somebody's.
_MONTH = rf"(?P<month>{_PLAIN_MONTH}|march|mar|may)\b\.?(?!['’]s)"
# Where a verb may stand, the two months that are verbs too are written with a capital.
_SURE_MONTH = rf"(?P<month>{_PLAIN_MONTH}|(?-i:March|May))\b\.?(?!['’]s)"
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)\b(?!\s+(?:boot|framework|mvc|security|data|cloud))"
_YEAR = r"(?P<year>20\d\d|last\s+year|this\s+year)\b"
_OF_YEAR = rf"(?:,?\s+(?:of\s+|in\s+)?{_YEAR})?"
_QUARTER = r"(?:q(?P<quarter>[1-4])|(?P<nth>first|second|third|fourth)\s+quarter)\b"
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_ANY_NAME = rf"(?:{_FULL_WEEKDAY}|{_PLAIN_MONTH}|march|may|spring|summer|autumn|fall|winter)"
_WITHIN = r"(?:(?:early|mid|late|(?:the\s+)?(?:beginning|start|middle|end)\s+of)[\s-]+)?"
# "Explain it in 2000 words" names no year.
_COUNTED = (
    r"words?|char\w*|tokens?|lines?|steps?|items?|pages?|met(?:er|re)s?|m|km|miles?|feet|ft|dollars?|euros?|usd|eur"
    r"|calories|kcal|pixels?|px|days?|hours?|minutes?|seconds?|ms|pieces|people|rows"
)

# One of a rule's hints is in whatever it matches, in lower case: to look for a substring costs a hundredth of the rule.
_LAST = "last past previous"
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_SEASONS = "spring summer autumn fall winter"
_QUARTERS = "quarter q1 q2 q3 q4"
_PARTS = f"{_MONTHS} {_SEASONS} {_QUARTERS}"

_ENGLISH: tuple[tuple[_Tense, str, str, Read], ...] = (
    (
        _Tense.CLEAR,
        "tomorrow later of next coming following from after",
        (
            rf"\b(?:tomorrow|later\s+(?:today|this\s+\w+)|(?:rest|end)\s+of\s+(?:the|this)\s+(?:day|week|month|year)"
            rf"|(?:(?:in|on)\s+{_ANY_NAME}\s+(?:of\s+)?)?(?:next|coming|following)\s+(?:(?!last|past|this)[\w-]+\s+){{0,2}}?"
            rf"(?:days?|nights?|week(?:end)?s?|months?|quarters?|years?|{_ANY_NAME})(?:,?\s+(?:in|on)\s+{_ANY_NAME})?"
            rf"|(?:days?|weeks?|months?|years?)\s+(?:from|after)\s+(?:now|today|{_ANY_NAME}))\b"
        ),
        to_come,
    ),
    (_Tense.CLEAR, "ago", rf"\b(?:{_N}|a\s+few|several|some)\s+{_SPAN}\s+ago\b", ago),
    (
        _Tense.CLEAR,
        _LAST,
        # Not "how long will it last 3 days".
        rf"(?<!to )(?<!will )(?<!would )(?<!should )(?<!can )\b(?:last|past|previous)\s+(?:(?P<few>few|several)|{_N})\s+{_SPAN}",
        rolling,
    ),
    (
        _Tense.CLEAR,
        _LAST,
        r"\b(?:(?:the|this)\s+past|(?:in|over|within|during)\s+the\s+last)\s+(?P<unit>day|week|month|quarter|year)\b(?!\s+of\b)",
        rolling,
    ),
    (_Tense.CLEAR, _LAST, r"\b(?P<unit>week(?:end)?|month|quarter|year|night)\s+before\s+last\b", counted_back(2)),
    (_Tense.CLEAR, _LAST, r"\b(?:last|previous)\s+(?P<unit>week(?:end)?|month|quarter|year)\b", counted_back(1)),
    (_Tense.OPEN, "this", r"\bthis\s+(?P<unit>week(?:end)?|month|quarter|year)\b", counted_back(0)),
    (_Tense.CLEAR, _LAST, rf"\blast\s+week(?:\s+on)?\s+{_WEEKDAY}", counted_back(1)),
    (_Tense.CLEAR, _LAST, rf"\b(?:on\s+)?(?P<weekday>{_FULL_WEEKDAY})(?:\s+of)?\s+last\s+week\b", counted_back(1)),
    (_Tense.CLEAR, _LAST, rf"\b(?:last|past|previous)\s+{_WEEKDAY}", last_weekday),
    (_Tense.OPEN, "this", rf"\bthis\s+(?P<weekday>{_FULL_WEEKDAY})\b", counted_back(0)),
    (_Tense.BARE, "day", rf"\b(?:on|since)\s+(?P<weekday>{_FULL_WEEKDAY})\b", last_weekday),
    (_Tense.BARE, "weekend", r"\b(?:over|on|at|during)\s+the\s+(?P<unit>weekend)\b", counted_back(1)),
    (_Tense.CLEAR, "last yesterday", r"\b(?:last\s+night|yesterday\s+(?:evening|night))\b", last_night),
    (_Tense.CLEAR, "yesterday", r"\bday\s+before\s+yesterday\b", days_back(2)),
    (_Tense.CLEAR, "yesterday", r"\byesterday\b", days_back(1)),
    (_Tense.OPEN, "today this", r"\b(?:today|this\s+(?:morning|afternoon))\b", days_back(0)),
    (_Tense.CLEAR, "earlier", r"\bearlier\s+(?:today|this\s+(?:morning|afternoon|evening))\b", days_back(0)),
    (_Tense.CLEAR, "other", r"\bthe\s+other\s+(?:day|night|evening)\b", last_days(FEW)),
    (_Tense.CLEAR, "recent lately", r"(?<!most )\b(?:recently|lately)\b", last_days(_RECENT_DAYS)),
    # "The last may be" is a verb.
    (
        _Tense.CLEAR,
        _LAST,
        rf"(?<!the )\b(?P<which>last|past|previous)\s+(?:{_MONTH}|{_SEASON})(?!\s+(?:be|not|have)\b)",
        named,
    ),
    (_Tense.OPEN, "this", rf"\b(?P<which>this)\s+(?:{_SURE_MONTH}|{_SEASON})", named),
    (
        _Tense.OPEN,
        _MONTHS,
        rf"\b(?:(?:in|during|since|around)\s+{_WITHIN}|(?:beginning|start|middle|end)\s+of\s+){_MONTH}{_OF_YEAR}(?!\s+\d)",
        named,
    ),
    # "From June" is from her.
    (_Tense.OPEN, _MONTHS, rf"\bfrom\s+(?!april|may|june|august){_MONTH}{_OF_YEAR}(?!\s+\d)", named),
    (_Tense.CLEAR, _PARTS, rf"\b(?:{_MONTH}|{_SEASON}|{_QUARTER}),?\s+(?:of\s+)?{_YEAR}", named),
    (_Tense.OPEN, _SEASONS, rf"\b(?:in|during|since|over)\s+(?:(?:the|early|late)\s+)+{_SEASON}{_OF_YEAR}", named),
    (_Tense.OPEN, _QUARTERS, rf"\b(?:in|during|since)\s+(?:the\s+)?{_QUARTER}{_OF_YEAR}", named),
    (_Tense.OPEN, _MONTHS, rf"\b(?:on|since|from)\s+(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}{_OF_YEAR}", dated),
    (_Tense.OPEN, _MONTHS, rf"\b(?:the\s+)?{_DAY}\s+(?:of\s+)?{_SURE_MONTH}{_OF_YEAR}", dated),
    (_Tense.OPEN, _MONTHS, rf"\b(?P<day>first|second|third)\s+of\s+{_MONTH}{_OF_YEAR}", dated),
    (_Tense.OPEN, _MONTHS, rf"\b(?:on|since|from)\s+{_MONTH}\s+(?:the\s+)?{_DAY}\b{_OF_YEAR}", dated),
    (
        _Tense.OPEN,
        _MONTHS,
        rf"\b{_SURE_MONTH}\s+{_DAY}(?:(?<=[a-z])|(?=\s*(?:[?.!,;)]|$))|(?=\s+20\d\d)){_OF_YEAR}",
        dated,
    ),
    (
        _Tense.CLEAR,
        "20",
        (
            rf"\b(?:in|during|since|from|throughout)\s+(?:(?:early|mid|late|the\s+year)[\s-]+)?(?P<year>20\d\d)\b"
            rf"(?![.,]?\d|[-–/]\d|\s*(?:{_COUNTED})\b)"
        ),
        whole_year,
    ),
)

_HAN_N = r"(?P<n>(?<![\d.])\d{1,3}|(?<![一二三四五六七八九十百千])(?:[一二三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])|半)"
_HANFEW = r"(?P<few>好?几)"
_HAN_SPAN = r"(?P<unit>个?(?:小时|钟头|星期|礼拜)|个月|周|天|日|年)"
_HAN_WEEK = r"个?(?:周|星期|礼拜)"
_HAN_WEEKDAY = r"(?P<weekday>[一二三四五六日天])"
_HAN_MONTH = r"(?<![\d一二三四五六七八九十每第几])(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月"
_HAN_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9]|[二三]?十[一二三四五六七八九]?|[一二三四五六七八九])[日号]"
_HAN_SEASON = r"(?P<season>[春夏秋冬])[天季]"
_HAN_YEAR = r"(?P<year>大?前年|去年|今年|(?<!\d)20\d\d(?=年))年?的?"
# 早上周三 is a morning and a weekday.
_HAN_LAST = r"(?<![上早晚路马身])上"

_CHINESE: tuple[tuple[_Tense, str, Read], ...] = (
    (
        _Tense.CLEAR,
        (
            r"(?:明[天日早晚]|(?<![以之])大?后[天年]|明年的?(?:[\d一二三四五六七八九十]+月份?|[春夏秋冬][天季])?"
            r"|下下?个?(?:(?:周|星期|礼拜)[一二三四五六日天末]?|月|季度)(?:[\d一二三四五六七八九十]+[日号])?)"
        ),
        to_come,
    ),
    (_Tense.CLEAR, rf"(?:{_HAN_N}|好?几){_HAN_SPAN}(?:以|之)?前", ago),
    (_Tense.CLEAR, rf"(?:最近|过去|近)的?(?:这)?(?:{_HANFEW}|{_HAN_N}){_HAN_SPAN}", rolling),
    (_Tense.CLEAR, rf"[这前](?:{_HANFEW}|(?P<n>两|俩|三)){_HAN_SPAN}", rolling),
    (_Tense.CLEAR, rf"上上{_HAN_WEEK}{_HAN_WEEKDAY}", counted_back(2)),
    (_Tense.CLEAR, r"上上个?(?P<unit>周末|周|星期|礼拜|月|季度)", counted_back(2)),
    (_Tense.CLEAR, rf"{_HAN_LAST}{_HAN_WEEK}{_HAN_WEEKDAY}", counted_back(1)),
    (_Tense.CLEAR, rf"{_HAN_LAST}个?(?P<unit>周末|周|星期|礼拜|月|季度)", counted_back(1)),
    (_Tense.OPEN, rf"[这本]{_HAN_WEEK}{_HAN_WEEKDAY}", counted_back(0)),
    (_Tense.OPEN, r"[这本]个?(?P<unit>周末|周|星期|礼拜|月|季度)", counted_back(0)),
    (_Tense.BARE, rf"(?<![每下上本这一两几个到至和])(?:周|星期|礼拜){_HAN_WEEKDAY}(?!到|至)", last_weekday),
    (_Tense.CLEAR, r"昨[晚夜]|昨天(?:晚上|夜里)", last_night),
    (_Tense.CLEAR, r"大前[天日]", days_back(3)),
    # 目前天气 is the weather at present.
    (_Tense.CLEAR, r"(?<![目之以当从年月周天日大])前[天日晚](?!气)", days_back(2)),
    (_Tense.CLEAR, r"昨[天日]", days_back(1)),
    (_Tense.OPEN, r"今[天日早]", days_back(0)),
    (_Tense.CLEAR, r"刚[才刚]", days_back(0)),
    # 最近的餐厅, 离我最近 are near, and 最近一次 is the last time.
    (
        _Tense.CLEAR,
        r"(?<!离)(?<!离[我你他她它家])(?<!离[我你他她它公][们家司])最近(?!的|一次|那次)|近[来期日]|这阵子|这段时间|前阵子|前段时间|前些[天日]子?|不久前",
        last_days(_RECENT_DAYS),
    ),
    (_Tense.OPEN, rf"(?:{_HAN_YEAR})?{_HAN_MONTH}{_HAN_DAY}", dated),
    (_Tense.OPEN, rf"(?:{_HAN_YEAR})?{_HAN_MONTH}(?:份|(?!天))", named),
    (_Tense.CLEAR, rf"{_HAN_YEAR}{_HAN_SEASON}", named),
    (_Tense.CLEAR, rf"(?P<which>上)个?{_HAN_SEASON}", named),
    (_Tense.OPEN, r"(?P<which>这)个?(?P<season>[春夏秋冬])[天季]", named),
    (_Tense.OPEN, rf"(?:{_HAN_YEAR})?第?(?P<quarter>[1-4一二三四])季度", named),
    (_Tense.OPEN, r"(?P<year>今年)", whole_year),
    (_Tense.CLEAR, r"(?P<year>大?前年|去年|(?<!\d)20\d\d(?=年(?!代)))年?", whole_year),
)

_BOTH: tuple[tuple[_Tense, str, str, Read], ...] = (
    (
        _Tense.CLEAR,
        "20",
        r"(?<![\w/-])(?P<year>20\d\d)(?P<dash>[-/])(?P<month>1[0-2]|0?[1-9])(?P=dash)(?P<day>[12]\d|3[01]|0?[1-9])(?![\d/-])",
        dated,
    ),
    (_Tense.CLEAR, "20", r"(?<![\w/-])(?P<year>20\d\d)-(?P<month>1[0-2]|0[1-9])(?![\w/-])", named),
)

_HAN_HINTS = frozenset("年月天日周星礼春夏秋冬季近刚久阵时钟前昨今明")
_LAST_OF = ("last", "past", "previous")
_ARTICLE_BEFORE = re.compile(r"\b(?:the|my|your|his|her|our|their|its|every|each)\s+$", re.IGNORECASE)
_YEAR_NUMBER = re.compile(r"20\d\d")
_CONTINUED = re.compile(r"\s*[(（\[]|['’]|\s+of\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[?!。？！\n]+|\.\s+(?=[A-Z])")
# What the words around a time make of it: something begins then, is done by then, or is for then.
_ROLE_BEFORE = re.compile(
    r"\b(?:(?P<beginning>since|starting)|(?P<deadline>until|till|by|before|after)|(?P<purpose>for))\s+(?:the\s+)?$"
    r"|(?P<beginning_zh>自从?|从)$",
    re.IGNORECASE,
)
_ROLE_AFTER = re.compile(r"\s*(?:(?P<beginning>以来|至今|开始|起|之?后|以后)|(?P<deadline>(?:之|以)?前))")
_AHEAD = re.compile(
    r"\b(?:will|shall|should|going\s+to|gonna|(?:want|need|have|like|plan|hope)\s+to|could|upcoming|book|schedule|suggest"
    r"|recommend|make|create|write|draft|cook|plan|planning|weather|forecast)\b|['’]ll\b"
    r"|打算|准备|计划|将要?|会不会|应该|推荐|建议|安排|帮我|要去|想去|想吃|天气",
    re.IGNORECASE,
)
_PAST_VERB = re.compile(
    r"\b(?:did|didn['’]?t|was|wasn['’]?t|were|weren['’]?t|had|been|done|said|told|went|gone|got|gave|made|took|saw|seen"
    r"|met|ate|bought|wrote|chose|thought|knew|came|began|spoke|left|lost|found|felt|sent|paid|spent|ran|read"
    r"|\w{2,}[^e\W]ed)\b|了|过|[说聊提问写记买吃]的|曾|当时",
    re.IGNORECASE,
)


def period_of(question: str, now: datetime) -> Period | None:
    """The time that the question speaks of, if it is past or has begun; `start` is never after `now`.

    Args:
        now: aware.
    """
    if len(question) > _MAX_CHARS:
        return None
    sentences = _SENTENCE_END.split(in_form("NFKC", question))
    try:
        moment = now.astimezone(UTC)
        return next((found for each in sentences for found in _past(each, moment)), None)
    except (OverflowError, ValueError, LookupError):
        # A date outside the calendar, or a letter that only matches as another's upper case (the Turkish i).
        return None


def with_dates(text: str, said_at: datetime) -> str:
    """The text with their dates behind its relative expressions: "last month (October 2026)".

    Only behind one that says by itself that it is past, and that means a day, a week, some whole months or a year.

    Args:
        said_at: aware.
    """
    if len(text) > _MAX_DATED_CHARS:
        return text
    parts: list[str] = []
    end = 0
    for tense, match, read in _expressions(text):
        if tense is _Tense.CLEAR and _stands_alone(match) and (shown := _date(match, read, said_at.astimezone(UTC))):
            parts += (text[end : match.end()], shown)
            end = match.end()
    return "".join((*parts, text[end:]))


def _stands_alone(match: re.Match[str]) -> bool:
    """Whether it is relative, and neither part of a longer expression ("the last week of May") nor explained already."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    is_counted = match.group().lower().startswith(_LAST_OF) and _ARTICLE_BEFORE.search(before)
    return not (is_counted or _YEAR_NUMBER.search(match.group()) or _CONTINUED.match(after))


def _date(match: re.Match[str], read: Read, said_at: datetime) -> str:
    """The date in brackets; "" for none, and for the day on which it was said."""
    try:
        period = read(match, said_at)
    except (OverflowError, ValueError, LookupError):
        return ""
    is_vague = match.groupdict().get("n", "") is None
    if period is None or is_vague or midnight(period.end) > said_at:
        return ""
    return in_brackets(period, chinese=bool(CJK.search(match.group())))


def _past(sentence: str, now: datetime) -> Iterator[Period]:
    expressions = list(_expressions(sentence))
    if not expressions:
        return
    looks_back = bool(_PAST_VERB.search(sentence))
    looks_ahead = not looks_back and bool(_AHEAD.search(sentence))
    for tense, match, read in expressions:
        if (tense is _Tense.OPEN and looks_ahead) or (tense is _Tense.BARE and not looks_back):
            continue
        roles = _roles(match)
        # What something is for, or done by, says nothing of when it was said.
        if "deadline" in roles or (tense is _Tense.OPEN and "purpose" in roles):
            continue
        period = read(match, now)
        if period and period.start <= now:
            lasting = Period(period.start, midnight(now) + timedelta(days=1))
            yield lasting if "beginning" in roles else period


def _expressions(sentence: str) -> Iterator[tuple[_Tense, re.Match[str], Read]]:
    """What matches, in the order of the text; none overlaps another."""
    lowered = sentence.lower()
    hints = {hint for hint in _HINTS if hint in lowered}
    rules = [rule for rule in _RULES if not hints.isdisjoint(rule.hints)]
    if not _HAN_HINTS.isdisjoint(sentence):
        rules += _HAN_RULES
    found = [(rule, match) for rule in rules for match in rule.pattern.finditer(sentence)]
    end = 0
    for rule, match in sorted(found, key=lambda each: (each[1].start(), -each[1].end())):
        if match.start() >= end:
            end = match.end()
            yield rule.tense, match, rule.read


def _roles(match: re.Match[str]) -> set[str]:
    """What the words before and after make of the time: "beginning", "deadline", "purpose"."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    found = (_ROLE_BEFORE.search(before), _ROLE_AFTER.match(after))
    roles = {(role.lastgroup or "").removesuffix("_zh") for role in found if role}
    return roles | ({"beginning"} if match.group().lower().startswith("since") else set())


_RULES = tuple(
    _Rule(tense, frozenset(hints.split()), re.compile(text, re.IGNORECASE), read)
    for tense, hints, text, read in (*_ENGLISH, *_BOTH)
)
_HINTS = frozenset[str]().union(*(rule.hints for rule in _RULES))
_HAN_RULES = tuple(_Rule(tense, _HAN_HINTS, re.compile(text, re.IGNORECASE), read) for tense, text, read in _CHINESE)
