"""Amounts, dates, times, measures and other numbers of a text, each in one spelling with its class. Pure.

Strategy: "$10K" and "10,000 dollars" are `money:10000`, "2026-05-03" and "May 3, 2026" are `date:0503` and `year:2026`. The
patterns run in order, and each takes from the text what it reads, so that a number has one class.
"""

import re
import unicodedata
from collections.abc import Callable

from semrouter_memory.language.scripts import simplified

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {form: number for number, name in enumerate(MONTHS, 1) for form in (name, name[:3])} | {"sept": 9}
_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_WRITTEN = {word: number for number, word in enumerate((*_ONES, *_TEENS), 1)}
_TENS = {
    word: 10 * number
    for number, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
NUMBER_WORDS = _WRITTEN | _TENS
"""The numbers up to ninety that are one English word."""
_UNITS = {
    unit: name
    for name, units in {
        "kg": "kg kgs kilo kilos kilogram kilograms 公斤 千克",
        "lb": "lb lbs",
        "km": "km kms kilometer kilometers kilometre kilometres 公里",
        "mile": "mile miles",
        "cm": "cm centimeters centimetres 厘米",
        "m": "m meter meters metre metres 米",
        "minute": "min mins minute minutes 分钟",
        "hour": "h hr hrs hour hours 小时",
        "day": "day days 天",
        "week": "week weeks 周",
        "month": "month months 个月",
        "year": "year years yr yrs 年",
        "age": "age 岁",
        "percent": "percent % ％",
        "mg": "mg milligram milligrams 毫克",
        "mcg": "mcg",
        "ml": "ml 毫升",
        "iu": "iu",
        "gb": "gb",
        "tb": "tb",
    }.items()
    for unit in units.split()
}
SCALES = {"k": 1_000, "m": 1_000_000, "千": 1_000, "万": 10_000}
_DIGITS = {digit: number for number, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_PLACES = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}
ORDINALS = {
    word: number
    for number, word in enumerate(
        ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), 1
    )
}
_DAYS = dict(zip("一二三四五六日天", ("mon", "tue", "wed", "thu", "fri", "sat", "sun", "sun"), strict=True))

_NUM = r"\d[\d,]*(?:\.\d+)?"
_MONTH = r"(?P<month>(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6})\b\.?"
_CURRENCY = r"(?:dollars?|euros?|pounds?|bucks|quid|usd|eur|gbp|rmb|yen|crowns?|[$€£¥₹]|元|块钱?|美元|欧元)(?![a-z])"
_SCALE = r"\s?(?P<scale>[km万千]?)"
_UNIT = r"years?[ -]old|[a-z]{1,11}|公斤|千克|公里|厘米|分钟|小时|个月|毫克|毫升|[天周年岁米%％]"
_COMPOUND = re.compile(rf"\b({'|'.join(_TENS)})[- ]({'|'.join(_ONES)})\b")
_WORD = re.compile(r"\b[a-z]{3,9}\b(?! of\b)")
_HAN_NUMBER = re.compile(
    r"[一二两三四五六七八九十]+[百千万][零〇一二两三四五六七八九十百千万]*|[零〇一二两三四五六七八九十]+(?=[元块岁个点月号日年天次小分公斤杯楼层人口只条匹位名本台部辆份双间])"
)

_Reader = Callable[[re.Match[str]], tuple[str, ...]]


def values(text: str) -> frozenset[str]:
    """The values of a text, each as `class:value`."""
    return split(text)[0]


def split(text: str) -> tuple[frozenset[str], str]:
    """The values of a text, and the rest of the text in lower case without accents."""
    text = folded(text)
    text = _COMPOUND.sub(lambda match: str(_TENS[match[1]] + _WRITTEN[match[2]]), text)
    text = _WORD.sub(_written, text)
    text = _HAN_NUMBER.sub(lambda match: str(han_number(match.group())), text)
    found: set[str] = set()

    def take(read: _Reader) -> Callable[[re.Match[str]], str]:
        def taken(match: re.Match[str]) -> str:
            values = read(match)
            found.update(values)
            return " " if values else match.group()

        return taken

    for pattern, read in _PATTERNS:
        text = pattern.sub(take(read), text)
    return frozenset(found), text


def folded(text: str) -> str:
    """Lower case, without accents and typographic variants, in simplified characters."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", simplified(text)).replace("’", "'")
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char))).lower()


def kinds(found: frozenset[str]) -> dict[str, frozenset[str]]:
    """Values by class."""
    by_kind: dict[str, set[str]] = {}
    for value in found:
        by_kind.setdefault(value.partition(":")[0], set()).add(value)
    return {kind: frozenset(each) for kind, each in by_kind.items()}


def _written(match: re.Match[str]) -> str:
    word = match.group()
    return str(NUMBER_WORDS.get(word, word))


def han_number(text: str) -> int:
    """The number that Chinese characters write: 一九九五, 三百, 一万二."""
    if all(char in _DIGITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text))
    total, digit, place = 0, 0, 1
    for char in text:
        if char == "万":
            total, digit, place = (total + digit) * _PLACES[char], 0, _PLACES[char]
        elif char in _PLACES:
            total, digit, place = total + (digit or 1) * _PLACES[char], 0, _PLACES[char]
        else:
            digit, place = _DIGITS[char], place if _DIGITS[char] else 1
    # The last digit counts tenths of the place before it: 一万二 is 12,000.
    return total + digit * (place // 10 if place > 10 else 1)  # noqa: PLR2004


def _number(digits: str, scale: str | None = None) -> str:
    digits = digits.replace(",", "")
    return f"{float(digits) * SCALES.get(scale or '', 1):.12g}" if len(digits) < 15 else digits  # noqa: PLR2004


def _money(match: re.Match[str]) -> tuple[str, ...]:
    return (f"money:{_number(match['number'], match['scale'])}",)


def _month_number(name: str) -> int:
    return int(name) if name.isdigit() else _MONTHS.get(name, 0)


def _date(match: re.Match[str]) -> tuple[str, ...]:
    month = _month_number(match["month"])
    if not month:
        return ()
    day = (f"date:{month:02d}{int(match['day']):02d}",)
    return (*day, f"year:{match['year']}") if match["year"] else day


def _month(match: re.Match[str]) -> tuple[str, ...]:
    month = _month_number(match["month"])
    return (f"month:{month:02d}",) if month else ()


def _time(match: re.Match[str]) -> tuple[str, ...]:
    hour = int(match["hour"] or match["short"] or match["han"])
    half = match["half"] or match["short_half"] or match["part"]
    if half in {"p", "下午", "晚上"} and hour < 12:  # noqa: PLR2004 - noon
        hour += 12
    minute = "30" if match["han_minute"] == "半" else match["minute"] or (match["han_minute"] or "0").rstrip("分")
    return (f"time:{hour % 24:02d}{int(minute):02d}",)


def _weekday(match: re.Match[str]) -> tuple[str, ...]:
    return (f"day:{_DAYS[match['han']] if match['han'] else match['name'][:3]}",)


def _measure(match: re.Match[str]) -> tuple[str, ...]:
    name = "age" if match["unit"].endswith("old") else _UNITS.get(match["unit"], "")
    if not name:
        return ()
    number = float(_number(match["number"]))
    return (f"cm:{number * 100:g}",) if name == "m" else (f"{name}:{number:g}",)


_PATTERNS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (re.compile(r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), lambda match: (f"address:{match.group()}",)),
    (re.compile(rf"[$€£¥₹]\s?(?P<number>{_NUM}){_SCALE}(?![a-z])"), _money),
    (re.compile(rf"(?P<number>{_NUM}){_SCALE}\s?{_CURRENCY}"), _money),
    (re.compile(r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b"), _date),
    (re.compile(r"(?:(?P<year>\d{4})年)?(?P<month>\d{1,2})月(?P<day>\d{1,2})[日号]?"), _date),
    (re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s(?P<year>\d{{4}})\b)?"), _date),
    (re.compile(rf"\b{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s(?P<year>\d{{4}})\b)?"), _date),
    (re.compile(r"(?P<month>\d{1,2})月份?"), _month),
    (re.compile(rf"\b(?!may\b|mar\b){_MONTH}"), _month),
    (re.compile(rf"(?:(?<=in )|(?<=by )|(?<=until )|(?<=since )|(?<=next )){_MONTH}"), _month),
    (
        re.compile(
            r"\b(?P<hour>\d{1,2})[:：](?P<minute>\d\d)(?:\s?(?P<half>[ap])\.?m\b)?"
            r"|\b(?P<short>\d{1,2})\s?(?P<short_half>[ap])\.?m\b"
            r"|(?P<part>上午|早上|下午|晚上|中午)?(?P<han>\d{1,2})点(?P<han_minute>半|\d{1,2}分)?"
        ),
        _time,
    ),
    (
        re.compile(
            r"\b(?P<name>mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?\b"
            r"|(?:周|星期|礼拜)(?P<han>[一二三四五六日天])"
        ),
        _weekday,
    ),
    (
        re.compile(r"(?:(?<=\bturned )|(?<=\baged )|(?<=\buser is )|(?<=\bi am )|(?<=\bi'm ))\d{1,3}$"),
        lambda match: (f"age:{match.group()}",),
    ),
    (
        re.compile(rf"(?<![a-z\d.])(?P<number>{_NUM})[\s-]?(?P<unit>{_UNIT})(?![a-z²])"),
        _measure,
    ),
    (re.compile(r"(?<!\w)\+?\(?\d[\d() -]{5,}\d\b"), lambda match: (f"phone:{re.sub(r'[^0-9]', '', match.group())}",)),
    (re.compile(r"(?<![a-z\d.])((?:19|20)\d\d)(?![a-z\d]|\.\d)年?"), lambda match: (f"year:{match[1]}",)),
    (
        re.compile(rf"\b(?:(?P<word>{'|'.join(ORDINALS)})|(?P<digits>\d{{1,2}})(?:st|nd|rd|th))\b"),
        lambda match: (f"ordinal:{match['digits'] or ORDINALS[match['word']]}",),
    ),
    (
        re.compile(rf"(?P<number>{_NUM})(?P<scale>[千万])"),
        lambda match: (f"num:{_number(match['number'], match['scale'])}",),
    ),
    (
        re.compile(rf"(?<![a-z\d.]){_NUM}(?:\.\d+)*(?![a-z\d])"),
        lambda match: (f"num:{match.group().replace(',', '')}",),
    ),
)
