"""Steps of a life of which the later ends the earlier: sought and found, rented and bought, expecting and born. Pure.

Strategy: few pairs of verb classes, each with the same object. What is told of a year gone by ends nothing: "ran the
marathon in 2019" says nothing of the training for the next one.
"""

import re

from semrouter_memory.retain.reconciling import han
from semrouter_memory.retain.reconciling.forms import EMPLOYED, PREPOSITION
from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.words import tokens, values

_ARTICLE = r"(?:(?:an?|the|some|her|his|their|a new|a used|new)\s)?"
_SOUGHT = re.compile(
    r"^user (?:(?:is|has been|was) )?(?:(?:actively|still|now|currently) )?"
    r"(?:(?:looking|searching|hunting|shopping|waiting|applying|saving|saving up) (?:for|to buy)|seeking|in (?:search|need) of"
    r"|in the market for|(?:plans?|planning|wants?|hopes?|hoping|intends?|intending|looking|would like) to"
    rf" (?:buy|get|find|adopt|rent|hire|purchase|lease))\s{_ARTICLE}(?P<what>.+)$"
)
_FOUND = re.compile(
    r"^(?:on \S+ )?user (?:(?:has|finally|just|now) )*(?:found|got|landed|bought|purchased|hired|adopted|received|secured"
    rf"|accepted|leased|picked up)\s{_ARTICLE}(?P<what>.+)$"
)
_TRAINED = re.compile(
    rf"^user (?:is |has been )?(?:training|preparing|studying|practi[sc]ing|revising|cramming) for\s{_ARTICLE}(?P<what>.+)$|准备考?(?P<what_cn>.+)$"
)
_DONE = re.compile(
    r"^(?:on \S+ )?user (?:(?:has|finally|just|successfully) )*(?:passed|ran|finished|completed|took|aced|failed|won|rode|swam)\s"
    rf"{_ARTICLE}(?P<what>.+)$|(?:考上|通过|考过|拿到)了?(?P<done_cn>.+)$"
)
_ALONE = re.compile(r"\blives? (?:\w+ )?alone\b|独居|一个人住|独自住")
_SHARED = re.compile(r"\blives? with\b|\bshares? an? (?:flat|apartment|house|room)\b|合租|住一起|同住|moved in with")
_EXPECTING = re.compile(
    r"\bpregnan(?:t|cy)\b|\bexpecting (?:an?|twins|her|his|their)\b|\b(?:baby|due date) is (?:due|on|in)\b|怀孕|预产期"
)
_BORN = re.compile(
    r"\bgave birth\b|\b(?:had|welcomed) (?:an?|her|his|their|twins)\b(?: \w+)?(?: (?:baby|child|son|daughter|boy|girl|twins))?"
    r"|\bbecame a (?:new )?(?:mother|father|parent|mum|mom|dad)\b|\b(?:baby|twins) (?:\w+ )?(?:was|were) born\b|生了|出生"
)
_IDLE = re.compile(
    r"\b(?:unemployed|out of work|between jobs|jobless)\b|\b(?:looking|searching|hunting) for (?:an? )?(?:new )?(?:job|work)\b"
    r"|失业|待业|(?:找|求)工作"
)
_HIRED = re.compile(r"\b(?:found|got|landed|accepted|joined|started|starting|hired|now works)\b|入职|找到|加入")


def moved_on(newer: Meaning, older: Meaning) -> bool:
    """Whether the later statement tells of the step that ends what the earlier says."""
    if newer.negated or newer.planned or newer.people != older.people or _long_ago(newer):
        return False
    return (
        _reached(_SOUGHT, _FOUND, newer, older)
        or _reached(_TRAINED, _DONE, newer, older)
        or bool(_EXPECTING.search(older.plain) and _BORN.search(newer.plain))
        or bool(_IDLE.search(older.plain) and _HIRED.search(newer.plain) and _has_job(newer))
        or _bought(newer, older)
        or _lives_otherwise(newer, older)
    )


def _long_ago(newer: Meaning) -> bool:
    found = values(newer.words)
    return "year" in found and "date" not in found


def _reached(aim: re.Pattern[str], end: re.Pattern[str], newer: Meaning, older: Meaning) -> bool:
    """The same object; what the aim adds to it (a place, a name) is not another in the end."""
    wanted, got = aim.search(older.plain), end.search(newer.plain)
    if not wanted or not got:
        return False
    thing = tokens(PREPOSITION.sub("", next(each for each in wanted.groups() if each)))
    if not han.is_chinese(newer.plain) and newer.head not in thing:
        return False
    alike = older.names <= newer.names or not newer.names or not older.names
    return bool(thing) and thing <= tokens(next(each for each in got.groups() if each)) and alike


def _has_job(newer: Meaning) -> bool:
    return bool(newer.role or newer.employer or EMPLOYED.search(newer.plain))


def _bought(newer: Meaning, older: Meaning) -> bool:
    """What was rented is one's own now."""
    kept = older.words - {"rent"}
    return "rent" in older.words and "buy" in newer.words and bool(kept) and kept <= newer.words


def _lives_otherwise(newer: Meaning, older: Meaning) -> bool:
    """With others, and now alone; or the other way round."""
    alone, shared = _ALONE.search(newer.plain), _SHARED.search(newer.plain)
    other = _SHARED if alone else _ALONE if shared else None
    return bool(other and newer.changing and other.search(older.plain))
