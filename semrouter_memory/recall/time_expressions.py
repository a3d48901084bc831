"""When something was, as a question says it: "last week", "in May", 上个月. Pure.

Strategy: a table of patterns (`time_expressions.toml`), each with a reader that turns what it matched into a period. The first
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
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from semrouter_memory.language.phrases import lists, pieced
from semrouter_memory.language.scripts import CJK, in_form
from semrouter_memory.model import Period
from semrouter_memory.recall import periods
from semrouter_memory.recall.periods import Read, in_brackets, midnight

_MAX_CHARS = 500
"""A longer text is no question about memories: it brings dates of its own."""
_MAX_DATED_CHARS = 1_000


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


_LAST_OF = ("last", "past", "previous")
_ARTICLE_BEFORE = re.compile(r"\b(?:the|my|your|his|her|our|their|its|every|each)\s+$", re.IGNORECASE)
_CONTINUED = re.compile(r"\s*[(（\[]|['’]|\s+of\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[?!。？！\n]+|\.\s+(?=[A-Z])")
"""A small letter behind a full stop goes on with the same sentence: "I fly on 8 august. write a reply" looks ahead."""


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
    has_year = (match.groupdict().get("year") or "").startswith("20")
    return not (is_counted or has_year or _CONTINUED.match(after))


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
    rules = (rule for rule in _RULES if not hints.isdisjoint(rule.hints))
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


_DATA = lists("time_expressions", __package__)


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(pieced(text, _DATA["pieces"]), re.IGNORECASE)


def _rules(listed: Iterable[Sequence[str]]) -> Iterator[_Rule]:
    for tense, hints, reader, text in listed:
        name, *count = reader.split()
        read: Read = getattr(periods, name)(*map(int, count)) if count else getattr(periods, name)
        yield _Rule(_Tense[tense.upper()], frozenset(pieced(hints, _DATA["pieces"]).split()), _compiled(text), read)


_RULES = tuple(rule for language in ("english", "both", "chinese") for rule in _rules(_DATA["rules"][language]))
_AHEAD, _PAST_VERB, _ROLE_BEFORE, _ROLE_AFTER = (
    _compiled(_DATA["around"][name]) for name in ("ahead", "past_verb", "role_before", "role_after")
)
_HINTS = frozenset[str]().union(*(rule.hints for rule in _RULES))
