"""A statement's content as comparable tokens: canonical words, amounts, dates. Pure.

Strategy: two statements that say the same in other words should come out as (nearly) the same set of tokens, and two
that differ in what matters (a name, a number, a relation) should not. Values carry their class: `money:10000`,
`date:0704`, `day:mon`.
"""

import re
import unicodedata

from semrouter_memory.retain.wordlist import words

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
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
    if number > 0
}
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
_LENGTH = re.compile(r"\b(\d+(?:\.\d+)?)\s?(cm|m)\b")
_TIME = re.compile(r"\b(\d{1,2}):(\d\d)\b|\b(\d{1,2})\s?(am|pm)\b", re.IGNORECASE)
_DAY = re.compile(r"\b(mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)days?\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\w.:])((?:19|20)\d\d)(?![\w:.,-])")
_NUMBER = re.compile(r"(?<![\w.:])(\d[\d,]*(?:\.\d+)?)(?![\w:]|\.\d)")
_WORD = re.compile(r"[a-z]+:[\w.:]+|[\w][\w.+#/-]*[\w+#]|\w")
_HAN = re.compile(r"[\u4e00-\u9fff]")

_LIGHT = words(
    "a an the of to in on at for with by from as and or that this these those which who whom it its is are was"
    " were be been doing being am has have had having do does did get gets got getting there their them they he"
    " she his her him user users will would so up per each via about into than really also some any just very"
    " then now currently today again anymore more any longer after all new still use uses used using run runs"
    " running named name called take takes taking taken place pay pays work works working cost costs instead"
    " back own been one when where while said keep keeps currently raised increased lowered cut changed"
    " switched moved changed went goes go going set start started starting learn learned learning daily dose"
    " every month machine specifically want wants assistant"
)
_CANONICAL = {
    form: word
    for word, forms in {
        "trip": "vacation holiday holidays vacations trips journey",
        "favorite": "favourite",
        "color": "colour",
        "allergy": "allergic allergies",
        "mother": "mom mum mama mommy mummy",
        "father": "dad papa daddy",
        "child": "kid kids children",
        "doctor": "doc physician gp",
        "flat": "apartment",
        "born": "birthday birth birthdate",
        "live": "lives living lived reside resides residing based resident",
        "like": "likes liked prefer prefers preferred love loves loved enjoy enjoys enjoyed fond",
        "marry": "married marries marriage wedded",
        "disc": "disk",
        "phone": "mobile smartphone",
        "budget": "budgets",
        "wife": "spouse",
        "vegetarian": "veggie",
        "teach": "teaches teaching taught class classes",
        "plan": "plans planning planned",
        "run": "ran",
        "speak": "speaks speaking",
        "empty": "clear clears emptying clearing",
    }.items()
    for form in (word, *forms.split())
}
_HAN_LIGHT = frozenset("用户的是了在也和有就都着过得地每天坐个")


def tokens(text: str) -> frozenset[str]:
    """The statement's content words and values."""
    text = plain(text)
    text = _MONEY.sub(_money, text)
    for pattern in (_ISO_DATE, _DAY_MONTH, _MONTH_DAY):
        text = pattern.sub(_date, text)
    text = _LENGTH.sub(_length, text)
    text = _TIME.sub(_time, text)
    text = _DAY.sub(lambda match: f" day:{match.group(1)[:3]} ", text)
    text = _YEAR.sub(r" year:\1 ", text)
    text = _NUMBER.sub(lambda match: f" num:{_plain_number(match.group(1))} ", text)
    words = {_word(word) for word in _WORD.findall(_HAN.sub(" ", text))}
    return frozenset(words | _han(text)) - {""}


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
    text = re.sub(r"\b(?:the )?user's\b", "user's", text)
    text = re.sub(r"\bthe user\b", "user", text)
    text = re.sub(r"-(?=based\b)", " ", text)
    return re.sub(r"\s+", " ", text).strip(" .!,;:。！")


def _word(word: str) -> str:
    if ":" in word:
        return word
    if word in _NUMBER_WORDS:
        return f"num:{_NUMBER_WORDS[word]}"
    word = word.removesuffix("'s")
    if word in _CANONICAL:
        return _CANONICAL[word]
    return "" if word in _LIGHT or word == "s" else _CANONICAL.get(_stem(word), _stem(word))


def _stem(word: str) -> str:
    """A light stemmer: plural, third person, participle."""
    if not word.isalpha():
        return word
    for suffix, minimum in (("ing", 6), ("ies", 5), ("ed", 5), ("es", 5), ("s", 4)):
        if len(word) >= minimum and word.endswith(suffix) and not word.endswith(("ss", "us", "is")):
            stem = word.removesuffix(suffix) + ("y" if suffix == "ies" else "")
            return _undouble(stem).removesuffix("e") if suffix != "ies" else stem
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - "the" and "one" keep theirs


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
    return f" cm:{float(match[1]) * (100 if match[2] == 'm' else 1):g} "


def _time(match: re.Match[str]) -> str:
    if match[1]:
        return f" time:{int(match[1]):02d}.{match[2]} "
    return f" time:{int(match[3]) % 12 + (12 if match[4] == 'pm' else 0):02d}.00 "
