"""Which time a question speaks of, against a Wednesday in May."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semrouter_memory.recall import time_expressions
from semrouter_memory.recall.time_expressions import period_of, with_dates

NOW = datetime(2026, 5, 20, 15, 30, tzinfo=UTC)
SAID_AT = datetime(2026, 11, 18, 10, tzinfo=UTC)

PAST = {
    "What did I say today?": ("2026-05-20", "2026-05-21"),
    "what did I do yesterday": ("2026-05-19", "2026-05-20"),
    "What was it the day before yesterday?": ("2026-05-18", "2026-05-19"),
    "What did we decide this week?": ("2026-05-18", "2026-05-25"),
    "What did we talk about last week?": ("2026-05-11", "2026-05-18"),
    "the week before last": ("2026-05-04", "2026-05-11"),
    "What did I do last weekend?": ("2026-05-16", "2026-05-18"),
    "What happened last month?": ("2026-04-01", "2026-05-01"),
    "my goals this year": ("2026-01-01", "2027-01-01"),
    "Where did I go last year?": ("2025-01-01", "2026-01-01"),
    "the budget of last quarter": ("2026-01-01", "2026-04-01"),
    "3 days ago": ("2026-05-17", "2026-05-18"),
    "five hours ago": ("2026-05-20", "2026-05-21"),
    "24 hours ago": ("2026-05-19", "2026-05-20"),
    "two weeks ago": ("2026-05-03", "2026-05-10"),
    "a couple of weeks ago": ("2026-05-03", "2026-05-10"),
    "5 months ago": ("2025-12-01", "2026-01-01"),
    "two years ago": ("2024-01-01", "2025-01-01"),
    "half a year ago": ("2025-11-04", "2025-12-05"),
    "a few days ago": ("2026-05-13", "2026-05-20"),
    "a few weeks ago": ("2026-04-01", "2026-05-14"),
    "Who did I meet the other day?": ("2026-05-13", "2026-05-21"),
    "in the last 3 weeks": ("2026-04-29", "2026-05-21"),
    "over the past month": ("2026-04-20", "2026-05-21"),
    "the last few days": ("2026-05-13", "2026-05-21"),
    "What did I do last Monday?": ("2026-05-18", "2026-05-19"),
    "What did I do last Wednesday?": ("2026-05-13", "2026-05-14"),
    "What did I say on Tuesday?": ("2026-05-19", "2026-05-20"),
    "Where was I on Friday last week?": ("2026-05-15", "2026-05-16"),
    "in May": ("2026-05-01", "2026-06-01"),
    "in may, what did i buy": ("2026-05-01", "2026-06-01"),
    "back in March": ("2026-03-01", "2026-04-01"),
    "What was I doing in November?": ("2025-11-01", "2025-12-01"),
    "in early Sept.": ("2025-09-01", "2025-10-01"),
    "last May": ("2025-05-01", "2025-06-01"),
    "in May 2025": ("2025-05-01", "2025-06-01"),
    "March of last year": ("2025-03-01", "2025-04-01"),
    "at the end of April": ("2026-04-01", "2026-05-01"),
    "in 2024": ("2024-01-01", "2025-01-01"),
    "back in 2019, where did I live?": ("2019-01-01", "2020-01-01"),
    "since June": ("2025-06-01", "2026-05-21"),
    "since last week": ("2026-05-11", "2026-05-21"),
    "since 2024": ("2024-01-01", "2026-05-21"),
    "on 12 May": ("2026-05-12", "2026-05-13"),
    "on 25 May": ("2025-05-25", "2025-05-26"),
    "on the 3rd of April": ("2026-04-03", "2026-04-04"),
    "the first of March": ("2026-03-01", "2026-03-02"),
    "on April 3rd": ("2026-04-03", "2026-04-04"),
    "What did I note May 12, 2025": ("2025-05-12", "2025-05-13"),
    "on 29 February": ("2024-02-29", "2024-03-01"),
    "on 2025-05-12": ("2025-05-12", "2025-05-13"),
    "on 2025/5/2": ("2025-05-02", "2025-05-03"),
    "in 2025-05": ("2025-05-01", "2025-06-01"),
    "last summer": ("2025-06-01", "2025-09-01"),
    "last winter": ("2025-12-01", "2026-03-01"),
    "in the fall": ("2025-09-01", "2025-12-01"),
    "the summer of 2024": ("2024-06-01", "2024-09-01"),
    "this spring": ("2026-03-01", "2026-06-01"),
    "in Q1": ("2026-01-01", "2026-04-01"),
    "the third quarter of 2025": ("2025-07-01", "2025-10-01"),
    "What have I been reading recently?": ("2026-04-20", "2026-05-21"),
    "lately": ("2026-04-20", "2026-05-21"),
    "昨天我说了什么？": ("2026-05-19", "2026-05-20"),
    "前天": ("2026-05-18", "2026-05-19"),
    "大前天": ("2026-05-17", "2026-05-18"),
    "我今天说过什么": ("2026-05-20", "2026-05-21"),
    "上周我们聊了什么？": ("2026-05-11", "2026-05-18"),
    "上个星期三": ("2026-05-13", "2026-05-14"),
    "上上周": ("2026-05-04", "2026-05-11"),
    "上周末": ("2026-05-16", "2026-05-18"),
    "这周二我做了什么": ("2026-05-19", "2026-05-20"),
    "周二我说了什么": ("2026-05-19", "2026-05-20"),
    "上个月": ("2026-04-01", "2026-05-01"),
    "去年": ("2025-01-01", "2026-01-01"),
    "今年": ("2026-01-01", "2027-01-01"),
    "三月份我去了哪里": ("2026-03-01", "2026-04-01"),
    "五月": ("2026-05-01", "2026-06-01"),
    "十一月": ("2025-11-01", "2025-12-01"),
    "去年5月": ("2025-05-01", "2025-06-01"),
    "2025年6月": ("2025-06-01", "2025-07-01"),
    "2024年": ("2024-01-01", "2025-01-01"),
    "5月12号": ("2026-05-12", "2026-05-13"),
    "今年三月十二日": ("2026-03-12", "2026-03-13"),
    "3天前": ("2026-05-17", "2026-05-18"),
    "两周前": ("2026-05-03", "2026-05-10"),
    "三个月前": ("2026-02-01", "2026-03-01"),
    "十二天以前": ("2026-05-08", "2026-05-09"),
    "半年前": ("2025-11-04", "2025-12-05"),
    "过去三个月": ("2026-02-19", "2026-05-21"),
    "前几天": ("2026-05-13", "2026-05-21"),
    "最近我在忙什么": ("2026-04-20", "2026-05-21"),
    "去年夏天": ("2025-06-01", "2025-09-01"),
    "第一季度": ("2026-01-01", "2026-04-01"),
    "上周以来": ("2026-05-11", "2026-05-21"),
}

NO_PAST = (
    *("What is my budget?", "", "tomorrow", "next week", "in a week", "in 3 days", "two weeks from today", "next May"),
    *("in May next year", "next year in May", "in 2030", "this winter", "later this week", "by the end of May"),
    *("What should I cook today?", "Plan my trip in March", "What will I do in June?", "a menu for today"),
    *(
        "May I ask something?",
        "you may 5 times",
        "this may be hard",
        "the last may be wrong",
        "March on!",
        "march 5 miles",
    ),
    *(
        "Give me a second",
        "the second one",
        "What's on Friday?",
        "the yoga on Mondays",
        "May's opinion",
        "the mail from June",
    ),
    *(
        "Explain it in 2000 words",
        "in spring boot",
        "CVE-2024-1234",
        "version 2024-12-01-3",
        "before 2024",
        "until May",
    ),
    *("How long did the other one take?", "my last name", "at last", "the most recently used key", "February 30, 2025"),
    *(
        "明天",
        "后天",
        "下周三",
        "下个月",
        "明年三月",
        "三天后",
        "目前天气怎么样",
        "最近的餐厅在哪里",
        "五月之前",
        "每周三",
        "五月天",
    ),
    *("今天推荐吃什么", "三个月", "早上周五的会"),
)


@pytest.mark.parametrize(("question", "days"), PAST.items(), ids=PAST)
def test_a_question_about_the_past_names_these_days(question: str, days: tuple[str, str]) -> None:
    period = period_of(question, NOW)
    assert period is not None
    assert (period.start.isoformat(), period.end.isoformat()) == tuple(f"{day}T00:00:00+00:00" for day in days)


@pytest.mark.parametrize("question", NO_PAST)
def test_what_is_no_time_or_lies_ahead_names_none(question: str) -> None:
    assert period_of(question, NOW) is None


@pytest.mark.parametrize("question", ["last night", "yesterday evening", "昨晚", "昨天晚上"])
def test_last_night_is_noon_to_noon(question: str) -> None:
    period = period_of(question, NOW)
    assert period is not None
    assert (period.start, period.end) == (datetime(2026, 5, 19, 12, tzinfo=UTC), datetime(2026, 5, 20, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("question", "same"),
    [
        ("What did I say last week about the meeting tomorrow?", "last week"),
        ("Tomorrow I travel. What did I pack in March?", "in March"),
        ("What did I cook today? I will cook again in June.", "said today"),
        ("Did I plan a trip in March?", "in March"),
        ("２０２５年５月", "2025年5月"),
        ("明天的会，上周说过什么？", "上周"),
    ],
)
def test_the_first_time_that_is_past_counts(question: str, same: str) -> None:
    assert period_of(question, NOW) == period_of(same, NOW) is not None


def test_a_verb_of_one_sentence_says_nothing_of_the_next() -> None:
    assert period_of("I moved. What should I cook today?", NOW) is None


def test_the_calendar_is_utcs() -> None:
    evening = datetime(2026, 5, 20, 20, 0, tzinfo=timezone(timedelta(hours=-7)))
    period = period_of("said today", evening)
    assert period is not None
    assert period.start == datetime(2026, 5, 21, tzinfo=UTC)


def test_a_long_text_brings_dates_of_its_own() -> None:
    assert period_of("2025-05-12 ERROR " * 40, NOW) is None


@pytest.mark.parametrize(
    ("now", "question", "start"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "last month", "2025-12-01"),
        (datetime(2026, 1, 1, tzinfo=UTC), "last quarter", "2025-10-01"),
        (datetime(2026, 1, 1, tzinfo=UTC), "this winter", "2025-12-01"),
        (datetime(2026, 7, 1, tzinfo=UTC), "last summer", "2025-06-01"),
        (datetime(2026, 9, 1, tzinfo=UTC), "last summer", "2026-06-01"),
        (datetime(2026, 6, 1, tzinfo=UTC), "last May", "2026-05-01"),
        (datetime(2026, 5, 18, tzinfo=UTC), "last Monday", "2026-05-11"),
        (datetime(2026, 5, 17, tzinfo=UTC), "last week", "2026-05-04"),
        (datetime(2024, 2, 29, tzinfo=UTC), "a year ago", "2023-01-01"),
        (datetime(2024, 3, 31, tzinfo=UTC), "1 month ago", "2024-02-01"),
    ],
)
def test_units_are_counted_over_the_calendars_edges(now: datetime, question: str, start: str) -> None:
    period = period_of(question, now)
    assert period is not None
    assert period.start == datetime.fromisoformat(f"{start}T00:00:00+00:00")


PIECES = st.sampled_from(
    [
        *PAST,
        *NO_PAST,
        "since",
        "last",
        "ago",
        "in",
        "on",
        "may",
        "31",
        "years",
        "999",
        "前",
        "个月",
        "十",
        "年",
        "．",
        "ſ",
        "ı",
        "\n",
    ]
)


@given(
    question=st.lists(PIECES | st.text(max_size=5), max_size=6).map(" ".join)
    | st.lists(PIECES, max_size=9).map("".join),
    now=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])),
)
@example(question="lası week", now=NOW)
@example(question="ſummer 2024", now=NOW)
@example(question="thıs sprıng", now=NOW)
@example(question="999 years ago", now=datetime(1, 1, 1, tzinfo=UTC))
@example(question="this year", now=datetime(9999, 12, 31, tzinfo=UTC))
@example(question="十十天前", now=NOW)
def test_any_text_at_any_time_gives_a_period_that_has_begun_or_none(question: str, now: datetime) -> None:
    period = period_of(question, now)
    assert period is None or (period.start < period.end and period.start <= now)


WORDS = (
    "on in the last past this previous week month year quarter weekend night morning march may june q1 first second third of 2025"
    " 2024-05-03 2025-06 ago days two a few several since from yesterday today before other day recently lately earlier tomorrow"
    " next later spring fall monday fri 12 31st 3 over"
)


@given(st.lists(st.sampled_from(WORDS.split()), min_size=2, max_size=8).map(" ".join))
def test_a_rule_is_tried_on_whatever_it_matches(text: str) -> None:
    for rule in time_expressions._RULES:
        assert all(any(hint in match.group() for hint in rule.hints) for match in rule.pattern.finditer(text))


# -- shown with a memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("I moved last month", "I moved last month (October 2026)"),
        (
            "two weeks ago I ran, yesterday I swam",
            "two weeks ago (1 to 7 November 2026) I ran, yesterday (17 November 2026) I swam",
        ),
        ("last summer and three months ago", "last summer (June to August 2026) and three months ago (August 2026)"),
        ("we met last winter, in a bar", "we met last winter (December 2025 to February 2026), in a bar"),
        ("I was ill last night", "I was ill last night (17 November 2026)"),
        ("bought it last year", "bought it last year (2025)"),
        ("we left the week before last", "we left the week before last (2 to 8 November 2026)"),
        ("我上个月搬家了", "我上个月（2026年10月）搬家了"),
        ("去年冬天和昨天", "去年冬天（2025年12月至2026年2月）和昨天（2026年11月17日）"),
        ("I'm back since Thursday", "I'm back since Thursday (12 November 2026)"),
        ("上上周很忙", "上上周（2026年11月2日至11月8日）很忙"),
    ],
)
def test_a_relative_time_is_shown_with_its_date(said: str, shown: str) -> None:
    assert with_dates(said, SAID_AT) == shown


@pytest.mark.parametrize(
    "said",
    [
        "User is allergic to peanuts",
        "it rained last week of May, and the last week was dry",
        "my last year at school, last year's results",
        "last month (October)",
        "next month, in May, today, this week, earlier today",
        "recently, several years ago, a few days ago, in the past month",
        "in 2024, on 2026-03-15",
        "since Monday is a holiday, since Fridays are busy, on Monday",
        "no time at all " * 100 + "last month",
    ],
)
def test_a_time_that_is_not_sure_is_shown_as_it_was_said(said: str) -> None:
    assert with_dates(said, SAID_AT) == said


def test_a_time_before_the_calendar_is_shown_as_it_was_said() -> None:
    assert with_dates("999 years ago", datetime(900, 1, 1, tzinfo=UTC)) == "999 years ago"
