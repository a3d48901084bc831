"""Amounts, dates, times, measures and other numbers of a text, each in one spelling with its class. Pure.

Strategy: "$10K" and "10,000 dollars" are `money:10000`, "2026-05-03" and "May 3, 2026" are `date:0503` and `year:2026`. The
text is read once, token by token; at each the readers are tried in order, and the first that finds a value takes its tokens,
so that a number has one class.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from semrouter_memory.language.phrases import lists
from semrouter_memory.language.scripts import APOSTROPHES, in_form, simplified

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTH_NUMBERS = {form: number for number, name in enumerate(MONTHS, 1) for form in (name, name[:3])} | {"sept": 9}
_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_WRITTEN = {word: number for number, word in enumerate((*_ONES, *_TEENS), 1)}
_TENS = {
    word: 10 * number
    for number, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
NUMBER_WORDS = _WRITTEN | _TENS
"""The numbers up to ninety that are one English word."""
_LISTS = lists("values", __package__)
_UNITS, _SIGNS, _WEEKDAYS = (
    {word: name for name, words in _LISTS[listed].items() for word in words.split()}
    for listed in ("units", "signs", "weekdays")
)
WEEKDAY_NUMBERS = {word: number for number, words in enumerate(_LISTS["weekdays"].values()) for word in words.split()}
"""0 is Monday."""
_CURRENCIES = frozenset({*_SIGNS, *_LISTS["currencies"]["other"].split()})
_CURRENCY_SIGNS = frozenset(_LISTS["signs"])
_UNIT_SIGNS = frozenset({*_SIGNS, "%", "°"})
CURRENCIES = frozenset(_SIGNS.values())
"""As `units` names them."""
_SCALES = {
    **dict.fromkeys(("k", "thousand", "grand", "千"), 1_000),
    **dict.fromkeys(("m", "million", "百万"), 1_000_000),
    "万": 10_000,
}
_DIGITS = {digit: number for number, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_PLACES = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}
_NAMED_MONTHS = {"正": 1, "冬": 11, "腊": 12}
ORDINALS = {
    word: number
    for number, word in enumerate(
        ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"), 1
    )
}
_TOKEN = re.compile(
    r"https?://\S+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|[a-z]+|\s+|[^\w\s]|[^\W\da-z]|_"
)
"""Here and in the other patterns what may begin anywhere in a run of characters is bounded, or a long run takes the square of its length."""
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_WEEK_ZH, _PARTS_ZH = ("周", "星期", "礼拜"), {"上午": 0, "早上": 0, "中午": 0, "下午": 12, "晚上": 12}
_AGES = (" turned ", " aged ", " user is ", " i am ", " i'm ")
_MONTH_FRAMES = frozenset({"in", "by", "until", "since", "next"})
_VERBS = frozenset({"may", "mar"})
"""Short for a month only behind such a word."""
_MIN_PHONE, _MOST_PHONE_TOKENS, _NOON = 7, 32, 12
_IN_PHONE = frozenset("()- ")
_FIRST_WORDS = frozenset({*NUMBER_WORDS, *ORDINALS, *MONTH_NUMBERS, *_WEEKDAYS, *_CURRENCY_SIGNS})
"""The words, as opposed to figures and signs, with which a value may begin."""
_HAN_NUMBER = re.compile(
    r"百分之(?P<share>[零〇一二两三四五六七八九十百]{1,20}(?:点[零〇一二三四五六七八九]{1,20})?|\d{1,20}(?:\.\d{1,20})?)"
    # 三块二 is 3.20, and 两块三明治 is none.
    r"|(?P<whole>[零〇一二两三四五六七八九十百千]{1,20}|\d{1,20})块(?P<tenths>[一二三四五六七八九\d])(?=[毛角钱一每的左多吧了起]|\W|$)[毛角]?"
    r"|(?P<tenth>[一二两三四五六七八九])[毛角](?=钱|\W|$)"
    # 正月初十, 腊月二十三
    r"|(?P<named_month>[正冬腊])月|(?<=月)初(?P<early>[一二三四五六七八九十])"
    r"|(?<=[一二三四五六七八九十正冬腊]月)[一二三四五六七八九十]{1,3}(?![个月天年一二三四五六七八九十百千直起般共定样下])"
    r"|[一二两三四五六七八九十]{1,20}[百千万](?:[零〇]?[一二两三四五六七八九]?[十百千万]){0,20}(?:[零〇]?[一二两三四五六七八九])?"
    r"|[零〇一二两三四五六七八九十]{1,20}(?=[元块岁个点月号日年天次小分公斤杯楼层人口只条匹位名本台部辆份双间])"
    r"|\d{1,4}(?:万\d千?|千\d百?)(?:\d百)?(?![\d.,百十月号日年点岁个])"
)


class _Value(NamedTuple):
    """What was read: values, and the token behind them."""

    values: tuple[str, ...]
    end: int


def values(text: str) -> frozenset[str]:
    """The values of a text, each as `class:value`."""
    return split(text)[0]


def split(text: str) -> tuple[frozenset[str], str]:
    """The values of a text, and the rest of the text in lower case without accents."""
    text = _HAN_NUMBER.sub(_figures, folded(text))
    tokens = _Tokens(_TOKEN.findall(text))
    found: set[str] = set()
    rest: list[str] = []
    at = 0
    while at < len(tokens):
        if value := tokens.value(at):
            found.update(value.values)
        rest.append(" " if value else tokens[at])
        at = value.end if value else at + 1
    return frozenset(found), "".join(rest)


def _figures(number: re.Match[str]) -> str:
    """The number in figures, apart from another one before it: 四千八一个月 is 4,800 and one month."""
    before = number.string[: number.start()][-1:]
    return f"{' ' if before in {*_DIGITS, *_PLACES} else ''}{_in_figures(number.group(), number.groupdict())}"


def _in_figures(number: str, parts: Mapping[str, str | None]) -> str:
    """A number, per cent, an amount of money or a part of a date."""
    if share := parts["share"]:
        whole, _, decimals = share.replace("点", ".").partition(".")
        return f"{han_number(whole)}{'.' if decimals else ''}{''.join(str(han_number(each)) for each in decimals)}%"
    if (amount := parts["whole"]) and (tenths := parts["tenths"]):
        return f"{han_number(amount)}.{han_number(tenths)}元"
    if tenth := parts["tenth"]:
        return f"0.{han_number(tenth)}元"
    if month := parts["named_month"]:
        return f"{_NAMED_MONTHS[month]}月"
    counted = han_number(parts["early"] or number)
    # Seven digits without separators are a telephone number.
    return f"{counted:,}" if counted >= _SCALES["m"] else f"{counted}"


def units(text: str) -> frozenset[str]:
    """Currencies and per cent; "$" and "dollars" are one, "$" and "€" are two."""
    return frozenset(_SIGNS.get(token, token) for token in _TOKEN.findall(folded(text)) if token in _UNIT_SIGNS)


def folded(text: str) -> str:
    """Lower case, without accents and typographic variants, in simplified characters: a cafe is a café, on whatever keyboard."""
    if text.isascii():
        return text.lower()
    plain = simplified(in_form("NFKD", text)).translate(APOSTROPHES)
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char))).lower()


def kinds(found: frozenset[str]) -> dict[str, frozenset[str]]:
    """Values by class."""
    by_kind: dict[str, set[str]] = {}
    for value in found:
        by_kind.setdefault(value.partition(":")[0], set()).add(value)
    return {kind: frozenset(each) for kind, each in by_kind.items()}


def han_number(text: str) -> int:
    """The number that Chinese characters write, also with figures among them: 一九九五, 三百, 一万二, 1万5千."""
    if all(char in _DIGITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text))
    total, digit, place = 0, 0, 1
    for part in re.findall(r"\d+|\D", text):
        if part == "万":
            total, digit, place = (total + digit) * _PLACES[part], 0, _PLACES[part]
        elif part in _PLACES:
            total, digit, place = total + (digit or 1) * _PLACES[part], 0, _PLACES[part]
        else:
            digit = _DIGITS[part] if part in _DIGITS else int(part)
            place = place if digit else 1
    # The last digit counts tenths of the place before it: 一万二 is 12,000.
    return total + digit * (place // 10 if place > 10 else 1)  # noqa: PLR2004


def _number(digits: str, scale: str | None = None) -> str:
    digits = digits.replace(",", "")
    return f"{float(digits) * _SCALES.get(scale or '', 1):.12g}" if len(digits) < 15 else digits  # noqa: PLR2004


class _Tokens(list[str]):
    """A text's tokens: words, numbers, blanks, single signs and Chinese characters."""

    def value(self, at: int) -> _Value | None:
        """The value that begins with a token, None where none does."""
        token = self[at]
        if token.isspace() or (token.isascii() and token.isalpha() and token not in _FIRST_WORDS):
            return None
        if len(token) > 1 and ("@" in token or "://" in token):
            return _Value((f"address:{token}",), at + 1)
        if digits := self._digits(at):
            return self._of_number(at, *digits)
        if token in _CURRENCY_SIGNS and (digits := self._digits(self._blank(at + 1))):
            number, end = self._scaled(*digits)
            return _Value((f"money:{number}",), end)
        return self._month(at) or self._chinese(at) or self._phone(at) or self._of_word(at)

    def word(self, at: int) -> str:
        return self[at] if 0 <= at < len(self) else ""

    def _is_short(self, at: int) -> bool:
        """Whether it is a number that may be a day's or a month's."""
        return self.word(at).isdigit() and len(self[at]) <= len("31")

    def _blank(self, at: int) -> int:
        return at + self.word(at).isspace()

    def _digits(self, at: int) -> tuple[str, int] | None:
        """A number in figures, or in words up to ninety-nine, and the token behind it."""
        token = self.word(at)
        if token[:1].isdigit() and token[0].isascii() and "@" not in token:
            return token, at + 1
        if token in _TENS and self.word(at + 1) in {"-", " "} and self.word(at + 2) in _ONES:
            return str(_TENS[token] + _WRITTEN[self[at + 2]]), at + 3
        is_one_of = self[at + 1 : at + 3] == [" ", "of"]
        return (str(NUMBER_WORDS[token]), at + 1) if token in NUMBER_WORDS and not is_one_of else None

    def _scaled(self, digits: str, end: int) -> tuple[str, int]:
        """With a scale behind it, as in 10k."""
        scale = self.word(self._blank(end))
        return (_number(digits, scale), self._blank(end) + 1) if scale in _SCALES else (_number(digits), end)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _of_number(self, at: int, digits: str, end: int) -> _Value | None:
        before = self.word(at - 1)[-1:]
        apart = not (before.isascii() and (before.isalnum() or before == ".")) or not before
        return (
            self._date(digits, end)
            or self._money(digits, end)
            or (self._day(digits, end) if apart else None)
            or self._time(digits, end)
            or self._age(at, digits, end)
            or (self._number(at, digits, end) if apart else None)
        )

    def _date(self, digits: str, end: int) -> _Value | None:
        """As in 2026-05-03, 2026年5月3日, 5月3号."""
        year = (f"year:{digits}",) if len(digits) == len("2026") else ()
        if year and self[end : end + 4 : 2] == ["-", "-"] and self._is_short(end + 1) and self._is_short(end + 3):
            return _Value((f"date:{self[end + 1]:0>2}{self[end + 3]:0>2}", *year), end + 4)
        if year and self.word(end) == "年" and self.word(end + 2) == "月":
            digits, end = self[end + 1], end + 2
        elif year:
            return None
        if self.word(end) != "月" or not self._is_short(end - 1):
            return None
        if self._is_short(end + 1):
            named = self.word(end + 2) in {"日", "号"}
            return _Value((f"date:{digits:0>2}{self[end + 1]:0>2}", *year), end + 2 + named)
        return _Value((f"month:{digits:0>2}", *year), end + 1 + (self.word(end + 1) == "份"))

    def _money(self, digits: str, end: int) -> _Value | None:
        number, end = self._scaled(digits, end)
        end = self._blank(end)
        length = next((each for each in (2, 1) if "".join(self[end : end + each]) in _CURRENCIES), 0)
        return _Value((f"money:{number}",), end + length) if length else None

    def _day(self, digits: str, end: int) -> _Value | None:
        """As in 3 May, 3rd of May 2026."""
        at = self._blank(end + (self.word(end) in _SUFFIXES))
        at = at + 2 if self[at : at + 2] == ["of", " "] else at
        month = MONTH_NUMBERS.get(self.word(at), 0)
        if not month or len(digits) > len("31") or not self.word(at - 1).isspace():
            return None
        return self._with_year(f"date:{month:02d}{int(digits):02d}", at + 1 + (self.word(at + 1) == "."))

    def _with_year(self, date: str, end: int) -> _Value:
        at = self._blank(end + (self.word(end) == ","))
        year = self.word(at)
        if at > end and len(year) == len("2026") and year.isdigit():
            return _Value((date, f"year:{year}"), at + 1)
        return _Value((date,), end)

    def _time(self, digits: str, end: int, part: int = 0) -> _Value | None:
        """As in 7:45, 7:45 pm, 7.45 pm, 7 pm, 7点半, 下午7点20分."""
        hours, dot, minutes = digits.partition(".")
        if dot and len(minutes) == len("45") and self._half(self._blank(end))[0]:
            value = self._time(hours, end)
            return value and _Value((f"{value.values[0][:-2]}{minutes}",), value.end)
        if len(digits) > len("24") or not digits.isdigit():
            return None
        hour, minute, behind = int(digits), 0, self.word(end + 1)
        if self.word(end) == "点":
            if behind == "半":
                minute, end = 30, end + 1
            elif behind.isdigit() and self.word(end + 2) == "分":
                minute, end = int(behind), end + 2
            return _Value((f"time:{(hour + part * (hour < _NOON)) % 24:02d}{minute:02d}",), end + 1)
        timed = self.word(end) in {":", "："} and len(behind) == len("45") and behind.isdigit()
        minute, end = (int(behind), end + 2) if timed else (0, end)
        half, behind_half = self._half(self._blank(end))
        if not timed and not half:
            return None
        hour += _NOON * (half == "p" and hour < _NOON)
        return _Value((f"time:{hour % 24:02d}{minute:02d}",), behind_half if half else end)

    def _half(self, at: int) -> tuple[str, int]:
        """The letter a or p of am, pm, a.m, p.m, and the token behind."""
        if self.word(at) in {"am", "pm"}:
            return self[at][0], at + 1
        return (self[at], at + 3) if self.word(at) in {"a", "p"} and self[at + 1 : at + 3] == [".", "m"] else ("", at)

    def _age(self, at: int, digits: str, end: int) -> _Value | None:
        told = end == len(self) and f" {''.join(self[max(0, at - 4) : at])}".endswith(_AGES)
        return _Value((f"age:{digits}",), end) if told and digits.isdigit() else None

    def _number(self, at: int, digits: str, end: int) -> _Value | None:
        if value := self._measure(digits, end) or self._phone(at):
            return value
        behind = self.word(end)
        if behind in _SUFFIXES and len(digits) <= len("31"):
            return _Value((f"ordinal:{digits}",), end + 1)
        scaled, end_of_scale = self._scaled(digits, end)
        if end_of_scale > end and self.word(end_of_scale - 1) != "m":
            return _Value((f"num:{scaled}",), end_of_scale)
        if behind[:1].isascii() and behind[:1].isalnum():
            return None
        if len(digits) == len("2026") and digits[:2] in {"19", "20"} and digits.isdigit():
            return _Value((f"year:{digits}",), end + (behind == "年"))
        while self.word(end) == "." and self.word(end + 1)[:1].isdigit():
            digits, end = f"{digits}.{self[end + 1]}", end + 2
        return _Value((f"num:{digits.replace(',', '')}",), end)

    def _measure(self, digits: str, end: int) -> _Value | None:
        at = end + (self.word(end) == "-" or self.word(end).isspace())
        if self.word(at) in {"year", "years"} and self.word(at + 1) in {" ", "-"} and self.word(at + 2) == "old":
            return _Value((f"age:{float(_number(digits)):g}",), at + 3)
        joined = "".join(self[at : at + 2])
        unit, length = (joined, 2) if joined in _UNITS and joined != self.word(at) else (self.word(at), 1)
        if unit not in _UNITS or self.word(at + length) == "²":
            return None
        name, number = _UNITS[unit], float(_number(digits))
        return _Value((f"cm:{number * 100:g}" if name == "m" else f"{name}:{number:g}",), at + length)

    def _phone(self, at: int) -> _Value | None:
        """At least seven digits, blanks, hyphens and brackets, a digit at the end."""
        if not self[at].isdigit() and self[at] not in {"(", "+"}:
            return None
        last = at + (self[at] == "+")
        for end, token in enumerate(self[last : at + _MOST_PHONE_TOKENS], last + 1):
            if token.isdigit():
                last = end
            elif token not in _IN_PHONE:
                break
        text = "".join(self[at:last])
        joined = self.word(at - 1)[-1:].isalnum() or self.word(last)[:1].isalpha()
        if joined or len(text.lstrip("+(")) < _MIN_PHONE or not self._is_number(last):
            return None
        return _Value((f"phone:{''.join(filter(str.isdigit, text))}",), last)

    def _is_number(self, end: int) -> bool:
        """Whether the number that ends here is one by itself, and no measure, price or time."""
        digits = self[end - 1]
        return not (self._measure(digits, end) or self._money(digits, end) or self._time(digits, end))

    # -- words ---------------------------------------------------------------------------------------------------------

    def _month(self, at: int) -> _Value | None:
        """A month, with its day where one follows: May 3, 2026."""
        month = MONTH_NUMBERS.get(self[at], 0)
        if not month:
            return None
        end = at + 1 + (self.word(at + 1) == ".")
        day = self.word(end + 1)
        behind = end + 2 + (self.word(end + 2) in _SUFFIXES)
        if (
            self.word(end).isspace()
            and day.isdigit()
            and len(day) <= len("31")
            and self.word(behind) != ":"
            and not self.word(behind)[:1].isalpha()
        ):
            return self._with_year(f"date:{month:02d}{int(day):02d}", behind)
        if self[at] in _VERBS and self.word(at - 2) not in _MONTH_FRAMES:
            return None
        return _Value((f"month:{month:02d}",), end)

    def _chinese(self, at: int) -> _Value | None:
        """As in 周三, 下午3点."""
        begun = "".join(self[at : at + 2])
        if begun in _PARTS_ZH and (digits := self._digits(at + 2)):
            return self._time(*digits, part=_PARTS_ZH[begun]) if self.word(digits[1]) == "点" else None
        week = next((each for each in _WEEK_ZH if begun.startswith(each)), "")
        day = self.word(at + len(week))
        named = week and not day.isascii() and day in _WEEKDAYS
        return _Value((f"day:{_WEEKDAYS[day]}",), at + len(week) + 1) if named else None

    def _of_word(self, at: int) -> _Value | None:
        """A weekday, or an ordinal."""
        if self[at].isascii() and self[at] in _WEEKDAYS:
            return _Value((f"day:{_WEEKDAYS[self[at]]}",), at + 1)
        return _Value((f"ordinal:{ORDINALS[self[at]]}",), at + 1) if self[at] in ORDINALS else None
