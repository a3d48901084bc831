"""A statement's content as comparable tokens: canonical words, amounts, dates. Pure.

Strategy: two statements that say the same in other words should come out as (nearly) the same set of tokens, and two
that differ in what matters (a name, a number, a relation) should not. Values carry their class: `money:10000`,
`date:0704`, `day:mon`.
"""

import re
import unicodedata

from semrouter_memory.retain.reconciling import han
from semrouter_memory.retain.reconciling.synonyms import CANONICAL, CHANGE, KINDS, LIGHT, PHRASES, REWRITES

_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "jan january",
            "feb february",
            "mar march",
            "apr april",
            "may",
            "jun june",
            "jul july",
            "aug august",
            "sep sept september",
            "oct october",
            "nov november",
            "dec december",
        ],
        start=1,
    )
    for name in names.split()
}
_MONTH = r"(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_NUMBER_WORDS = {word: number for number, word in enumerate([*_ONES.split(), "eighteen", "nineteen"]) if number > 0}
_TENS = {
    word: number * 10
    for number, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_WRITTEN = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(list(_NUMBER_WORDS)[:9])}))?|({'|'.join(_NUMBER_WORDS)}))\b(?! of\b)"
)
_ORDINALS = {
    word: number
    for number, word in enumerate(
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], start=1
    )
}
_ORDINAL = re.compile(rf"\b(?:({'|'.join(_ORDINALS)})|(\d{{1,2}})(?:st|nd|rd|th))\b")
_ISO_DATE = re.compile(r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b")
_DAY_MONTH = re.compile(
    rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}\b(?:,?\s(?P<year>\d{{4}}))?", re.IGNORECASE
)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<year>\d{{4}}))?", re.IGNORECASE)
_AMOUNT = r"(?P<amount>\d[\d,]*(?:\.\d+)?)\s?(?P<scale>k|m)?"
_MONEY = re.compile(
    rf"[$€£¥]\s?{_AMOUNT}\b|\b{_AMOUNT.replace('amount', 'amount2').replace('scale', 'scale2')}\s?"
    r"(?:dollars?|euros?|pounds?|bucks|usd|eur|gbp|crowns?|pesos?|yen|[$€£¥]|元|块钱?|万元|欧元|美元)",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"\b(\d+(?:\.\d+)?)\s?(cm|m|centimet(?:er|re)s?|met(?:er|re)s?)\b")
_UNITS = {
    unit: name
    for name, units in {
        "kg": "kg kgs kilo kilos kilogram kilograms",
        "lb": "lb lbs",
        "km": "km kms kilometer kilometers kilometre kilometres k",
        "mile": "mile miles",
        "minute": "min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years yr yrs",
        "percent": "percent",
        "mg": "mg milligram milligrams",
        "mcg": "mcg",
        "ml": "ml",
        "iu": "iu",
        "gb": "gb",
        "tb": "tb",
        "mbit": "mbps mbit",
    }.items()
    for unit in units.split()
}
_MEASURE = re.compile(
    rf"(?<![\w:.])(\d[\d,]*(?:\.\d+)?)[\s-]?({'|'.join(sorted(_UNITS, key=len, reverse=True))})\b|(?<![\w:.])(\d[\d,]*(?:\.\d+)?)\s?(%)"
)
_AGE = re.compile(
    r"\b(\d{1,3})[\s-]years?[\s-]old\b|\b(?:turned|turns|aged|age is|age of|age)\s(\d{1,3})\b|\bis\s(\d{1,3})$"
)
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"\bhttps?://\S+")
_PHONE = re.compile(r"(?<![\w.])\+?\(?\d[\d()]*(?:[\s-]\d[\d()]*)+(?![\w:]|\.\d)")
_TIME = re.compile(r"\b(\d{1,2}):(\d\d)(?:\s?([ap])\.?m\b)?|\b(\d{1,2})\s?([ap])\.?m\b")
_DAY = re.compile(r"\b(mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)days?\b", re.IGNORECASE)
_PART = re.compile(r"\b(morning|afternoon|evening|night|noon|weekend|weekday)s?\b")
_MONTH_ALONE = re.compile(
    rf"\b(?:in|since|until|by|to|for|next|last|this|early|late|mid|from)[\s-]{_MONTH}(?!\w|\s\d{{1,2}}\b)(?:\s(?P<year>\d{{4}}))?"
)
_YEAR = re.compile(r"(?<![\w.:])((?:19|20)\d\d)(?![\w:,-]|\.\d)")
_NUMBER = re.compile(r"(?<![\w.:])(\d[\d,]*(?:\.\d+)*)(?![\w:]|\.\d)")
_HAS_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[a-z]+:[\w:.@+-]+|[\w][\w.+#/-]*[\w+#]|\w")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_PROPER = re.compile(r"(?<=[\w,] )[A-Z][\w.+#-]*")
_HAN_LIGHT = frozenset("用户的是了在也和有就都着过得地每天坐个很位正将与给去从")


_OF_USER = re.compile(r"(?P<start>^|[.] )the (?P<what>[\w' -]{2,40}?) of (?:the )?user\b")
_APPOSITION = re.compile(r"^(?P<name>[\w-]+), user's (?P<who>[\w-]+),\s?")


def tokens(text: str) -> frozenset[str]:
    """The statement's content words and values."""
    proper = frozenset(plain(name) for name in _PROPER.findall(text)) - {"user", "user's"}
    text = classed(plain(text))
    words = {_word(word, proper) for word in _WORD.findall(_HAN.sub(" ", text))}
    return frozenset(words | _han(text) | {KINDS[word] for word in words if word in KINDS}) - {""}


def classed(text: str) -> str:
    """A plain text with its values in one spelling, each with its class."""
    for pattern, replacement in PHRASES:
        text = pattern.sub(replacement, text)
    text = _WRITTEN.sub(_written, text)
    text = _EMAIL.sub(lambda match: f" email:{match.group()} ", text) if "@" in text else text
    text = _URL.sub(lambda match: f" url:{re.sub(r'[^a-z0-9]', '.', match.group())} ", text)
    text = _numbers_classed(text) if _HAS_DIGIT.search(text) else _MONTH_ALONE.sub(_month, text)
    text = _PART.sub(lambda match: f" part:{match[1]} ", text)
    text = _DAY.sub(lambda match: f" day:{match.group(1)[:3]} ", text)
    return _ORDINAL.sub(lambda match: f" ord:{_ORDINALS.get(match[1] or '') or match[2]} ", text)


def _numbers_classed(text: str) -> str:
    """Amounts, dates, times, measures; what is left is a number."""
    text = _MONEY.sub(_money, text)
    for pattern in (_ISO_DATE, _DAY_MONTH, _MONTH_DAY):
        text = pattern.sub(_date, text)
    text = _MONTH_ALONE.sub(_month, text)
    text = _TIME.sub(_time, text)
    text = _AGE.sub(lambda match: f" age:{match[1] or match[2] or match[3]} ", text)
    text = _LENGTH.sub(_length, text)
    text = _MEASURE.sub(_measure, text)
    text = _PHONE.sub(_phone, text)
    text = _YEAR.sub(r" year:\1 ", text)
    return _NUMBER.sub(lambda match: f" num:{_plain_number(match.group(1))} ", text)


def implied(words: frozenset[str]) -> frozenset[str]:
    """The tokens with what they say in passing: a date names its month."""
    return words | {f"month:{word[5:7]}" for word in words if word.startswith("date:")}


def values(words: frozenset[str]) -> dict[str, frozenset[str]]:
    """The classed values among tokens: class -> values."""
    classes: dict[str, set[str]] = {}
    for word in words:
        kind, colon, _ = word.partition(":")
        if colon:
            classes.setdefault(kind, set()).add(word)
    return {kind: frozenset(found) for kind, found in classes.items()}


def plain(text: str) -> str:
    """Lower case, without accents and apostrophes; "the user's" and "user's" are one."""
    text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    text = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    text = _OF_USER.sub(r"\g<start>user's \g<what>", han.normalised(text))
    text = re.sub(r"\b(?:the )?user's\b", "user's", text)
    text = re.sub(r"\bthe user\b", "user", text)
    text = _APPOSITION.sub(r"user's \g<who> \g<name> ", text)
    text = re.sub(r"-(?=based\b)", " ", text)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return re.sub(r"\s+", " ", text).strip(" .!,;:。！")


def _word(word: str, proper: frozenset[str]) -> str:
    if ":" in word:
        return word
    word = word.removesuffix("'s")
    if word in proper:
        return CANONICAL.get(word, _stem(word)) if word not in LIGHT | CHANGE else word
    if word in LIGHT or word in CHANGE or word == "s":
        return ""
    if word in CANONICAL:
        return CANONICAL[word]
    return CANONICAL.get(_stem(word), _stem(word))


def _stem(word: str) -> str:
    """A light stemmer: adverb, plural, third person, participle."""
    if not word.isalpha():
        return word
    word = _singular(word)
    for suffix, minimum in (("ly", 6), ("ing", 6), ("ed", 5)):
        if len(word) >= minimum and word.endswith(suffix):
            return _undouble(word.removesuffix(suffix)).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - "the" and "one" keep theirs


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):  # noqa: PLR2004 - "gas" is one
        return word
    if word.endswith("ies"):
        return word.removesuffix("ies") + "y"
    return word.removesuffix("es") if word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")) else word[:-1]


def _undouble(stem: str) -> str:
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem  # noqa: PLR2004


def _han(text: str) -> set[str]:
    return {char for char in _HAN.findall(text) if char not in _HAN_LIGHT}


def _plain_number(digits: str) -> str:
    return f"{float(digits.replace(',', '')):g}" if digits.count(".") < 2 and len(digits) < 15 else digits  # noqa: PLR2004


def _money(match: re.Match[str]) -> str:
    digits = match["amount"] or match["amount2"]
    scale = {"k": 1_000, "m": 1_000_000}.get(match["scale"] or match["scale2"] or "", 1)
    return f" money:{float(digits.replace(',', '')) * scale:.12g} "


def _date(match: re.Match[str]) -> str:
    month = match["month"]
    number = int(month) if month.isdigit() else _MONTHS[month]
    year = f" year:{match['year']}" if match["year"] else ""
    return f" date:{number:02d}{int(match['day']):02d}{year} "


def _length(match: re.Match[str]) -> str:
    return f" cm:{float(match[1]) * (100 if match[2].startswith('m') else 1):g} "


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1] or match[4]), match[2] or "00"
    half = match[3] or match[5]
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f" time:{hour:02d}.{minute} "


def _month(match: re.Match[str]) -> str:
    year = f" year:{match['year']}" if match["year"] else ""
    return f" month:{_MONTHS[match['month']]:02d}{year} "


def _written(match: re.Match[str]) -> str:
    if match[3]:
        return str(_NUMBER_WORDS[match[3]])
    return str(_TENS[match[1]] + (_NUMBER_WORDS[match[2]] if match[2] else 0))


def _measure(match: re.Match[str]) -> str:
    number, unit = (match[1], _UNITS[match[2]]) if match[1] else (match[3], "percent")
    return f" {unit}:{_plain_number(number)} "


def _phone(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match.group())
    return f" phone:{digits} " if len(digits) > 6 else match.group()  # noqa: PLR2004 - shorter ones are none
