"""What users tell the assistant about the conversation itself: remember this, forget that, play a role. Pure.

Strategy: phrases decide (`language/phrases.toml`), read token by token. A sentence withdraws what was said before it only
when nothing else stands in it: "scratch that, it's 15,000" is a correction, which has a new value to offer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from semrouter_memory.language.frames import unframed
from semrouter_memory.language.names import capitalised
from semrouter_memory.language.own_text import own_text
from semrouter_memory.language.phrases import MARKS, Phrases, after, begins, phrases, stretch
from semrouter_memory.language.sentences import QUESTION_MARKS, orders, sentences
from semrouter_memory.language.terms import terms
from semrouter_memory.language.values import kinds, values
from semrouter_memory.language.words import spans, tokens
from semrouter_memory.model import LoggedTurn
from semrouter_memory.retain.steering import is_to_be_remembered, unsteered

_FILLERS = phrases("fillers")
_REMEMBER, _REMEMBER_ZH, _REFERENCE = phrases("remember"), phrases("remember_zh"), phrases("for_reference")
_WITHDRAWALS, _WITHDRAWALS_ALONE = phrases("withdrawals"), phrases("withdrawals_alone")
_ROLE_PLAY_ENDS = phrases("role_play_ends")
_CAST = re.compile(r"\b(?i:you(?:'re| are)) [A-ZÀ-Þ][\w'-]+\s?[.,!]|(?:^|\n)[^\S\n]*\*[a-z]{2,20}s [^*\n]{1,80}\*")
"""Casts the assistant ("You are Gandalf."), or tells what a character does (*draws a sword*). "*sigh*" does not."""
_CLAUSES = re.compile(r"\s[-–—]{1,2}\s|—+|[;；]")
_SHORT_TOKENS = 10
_VAGUE = frozenset({"num:1"})
"""As in "the other one"."""
_ANNOUNCED_TOKENS = 4
"""Chinese characters between "记住" and the colon of an announcement."""
_GOAL_TOKENS = 16
"""In front of the colon behind which the steps are."""


# -- the users' own words


def spoken(turns: Sequence[LoggedTurn]) -> list[str]:
    """What of each turn, oldest first, the user says as themselves; "" where nothing is, or the next turn withdraws it.

    What is not the user's own text is cut from a message by its layout, and what a later sentence of it withdraws. A role-play lasts until the user ends it.
    """
    found: list[str] = []
    playing = False
    for turn in turns:
        cues = _cues(turn.user_text)
        if found and cues.withdraws:
            found[-1] = ""
        playing = playing and not cues.ends_play
        found.append("" if playing else cues.own)
        playing = playing or cues.begins_play
    return found


@dataclass(frozen=True, slots=True)
class _Cues:
    """What a message tells by itself.

    Attributes:
        own: the user's own text, up to where a role-play begins.
        begins_play: a role-play is in progress behind the message.
    """

    own: str
    withdraws: bool
    begins_play: bool
    ends_play: bool


# A message is read again with each of the twenty turns after it.
@lru_cache(256)
def _cues(message: str) -> _Cues:
    own = _standing(unsteered(own_text(message)))
    message = unframed(message, surely=True)
    begins, ends = _role_play_begins(own), _ROLE_PLAY_ENDS.occur_in(message)
    begins_play = not ends and (begins is not None or _role_play_begins(message) is not None)
    return _Cues(own[:begins], withdraws(message), begins_play, ends)


def _standing(text: str) -> str:
    """What stands behind the last sentence that takes something back."""
    pieces = sentences(text)
    last = max((number for number, piece in enumerate(pieces) if withdraws(piece)), default=-1)
    return "".join(pieces[last + 1 :]) if last >= 0 else text


def _role_play_begins(text: str) -> int | None:
    cast, start = _CAST.search(text), 0
    begins = [cast.start()] if cast else []
    for sentence in sentences(text):
        place = _plays_from(sentence)
        if place is not None:
            begins.append(start + spans(sentence)[place][0])
            break
        start += len(sentence)
    return min(begins, default=None)


def _plays_from(sentence: str) -> int | None:
    """The token with which a role-play begins that the sentence proposes or orders."""
    found = tokens(sentence)
    played, cast = phrases("role_play").places(found), phrases("casts").places(found)
    helps = phrases("helpers").occur_in(sentence)
    place = min(chain(played, () if helps else cast), default=None)
    if place is None or place <= after(found, _FILLERS) or orders(sentence):
        return place
    return place if phrases("addresses").occur_in(sentence) else None


# -- withdrawing


def withdraws(message: str) -> bool:
    """Whether the message takes back what was said before it: "scratch that", "forget what I just said"."""
    first, *more = sentences(message) or [""]
    if _is_only(first, _WITHDRAWALS):
        return True
    return _is_only(first, _WITHDRAWALS_ALONE) and all(_is_only(each, _WITHDRAWALS) for each in more)


def withdrawn(turns: Sequence[LoggedTurn]) -> list[LoggedTurn]:
    """The turns, of consecutive ones of a session, that the turn after them takes back."""
    return [turn for turn, following in pairwise(turns) if _cues(following.user_text).withdraws]


def _is_only(sentence: str, listed: Phrases) -> bool:
    """Whether nothing but phrases of the list, fillers and marks stand in a sentence."""
    found = tokens(sentence)
    return stretch(found, listed, _FILLERS) == (len(found), True)


# -- correcting


def may_correct(text: str) -> bool:
    """Whether it may put something else in the place of what was said before it: "wait, Friday", "I meant Leeds, not York"."""
    return surely_corrects(text) or names_wrong(text) or _hesitates(text)


def names_wrong(text: str) -> bool:
    """Whether it begins with what is wrong: "not Dayton, Kettering"."""
    return begins(_opening(text), phrases("denials"), _FILLERS)


def surely_corrects(text: str) -> bool:
    """Whether its first words tell so."""
    return begins(_opening(text), phrases("corrections"), _FILLERS) or (text[:1] == "*" and text[1:2].isalnum())


def corrects(text: str, told: str) -> bool:
    """Whether it puts something else in the place of a part of what was told: both have something of one kind."""
    if not may_correct(text):
        return False
    shared = {*terms(text)} & {*terms(told)}
    if shared or (names_wrong(text) and not surely_corrects(text)):
        return bool(shared)
    alike = kinds(values(text) - _VAGUE).keys() & kinds(values(told)).keys()
    return bool(alike or (capitalised(text) and capitalised(told)))


def gives_value(text: str) -> bool:
    """Whether a number, a date or a name stands in it."""
    return bool(values(text) - _VAGUE or capitalised(text))


def _opening(text: str) -> Sequence[str]:
    return tokens((sentences(text) or [""])[0])


def _hesitates(text: str) -> bool:
    """Only in a few words that are no courtesy ("no problem", "sorry to hear that"); "no" only where it begins them."""
    found = _opening(text)
    if len(found) > _SHORT_TOKENS or next(phrases("reassurances").places(found), None) is not None:
        return False
    return begins(found, phrases("denied")) or next(phrases("hesitations").places(found), None) is not None


# -- remembering


def asks_to_remember(message: str) -> bool:
    """Whether the user, in their own words, asks to have something remembered."""
    mentions = any(each.occur_in(message) for each in (_REMEMBER, _REMEMBER_ZH, _REFERENCE))
    return mentions and any(wished(sentences(own_text(message))))


def wished(pieces: Sequence[str]) -> list[bool]:
    """Which sentences of a message the user asks to have remembered.

    Those that ask it, and all that follow an announcement ("remember:") up to an empty line or a question.
    """
    found: list[bool] = []
    announced = False
    for piece in pieces:
        announced = _announces(piece) or (announced and not piece.rstrip().endswith(QUESTION_MARKS))
        found.append(announced or bool(wish(piece)) or is_to_be_remembered(piece))
        announced = announced and "\n\n" not in piece
    return found


def wish(sentence: str) -> str:
    """What the user asks to have remembered, "" when they ask no such thing."""
    found = tokens(sentence)
    if found[-1:] == ("?",) and not phrases("remember_politely").length_at(found, 0):
        return ""
    begins = _wish_begins(found)
    if begins is None or begins >= len(found):
        return ""
    text = sentence.strip()
    return text[spans(text)[begins - 1][1] :].strip(" ?:：,，")


def _wish_begins(found: Sequence[str]) -> int | None:
    """The token with which begins what shall be remembered."""
    start = after(found, _FILLERS)
    if length := _REMEMBER_ZH.length_at(found, start):
        return start + length
    if (length := _REFERENCE.length_at(found, start)) and {*found[start + length :][:1]} & {":", ","}:
        return start + length + 1
    if not (length := _REMEMBER.length_at(found, start)):
        return None
    place = start + length
    while more := phrases("remember_where").length_at(found, place):
        place += more
    if {*found[place:][:1]} & {":", ",", "that"}:
        return place + 1
    return place if phrases("remember_what").length_at(found, place) else None


def is_lesson(sentence: str) -> bool:
    """Whether it tells what to do the next time: "next time verify the version", "ask me first in future", "下次先备份".

    It may stand behind what it was learned from: "The steps were wrong - next time verify the version".
    """
    return any(map(_is_lesson, _CLAUSES.split(sentence)))


def _is_lesson(sentence: str) -> bool:
    found = tokens(sentence.rstrip(" .!。！"))
    if found[-1:] == ("?",):
        return False
    start = after(found, _FILLERS)
    if not (length := phrases("lessons").length_at(found, start)):
        ends = (place + phrases("next_time").length_at(found, place) for place in phrases("next_time").places(found))
        return orders(sentence) and len(found) in ends
    behind = start + length
    place = after(found, None, behind)
    if place >= len(found) or found[place] == "我":
        return False
    told = sentence[spans(sentence)[place][0] :]
    instructs = phrases("instructs").length_at(found, place) > 0 or phrases("instructs_zh").occur_in(told)
    return ":" in found[behind:place] or instructs or orders(told)


def is_procedure(text: str) -> bool:
    """Whether it tells how something is done: a goal with its steps ("To deploy: run ..."), or what comes first and what then."""
    found = tokens(text)
    if found[-1:] == ("?",):
        return False
    start = after(found, _FILLERS)
    aimed = phrases("goals").length_at(found, start) and not phrases("not_goals").length_at(found, start)
    goal = found[: found.index(":")] if ":" in found[:-1] else ()
    if 0 < len(goal) <= _GOAL_TOKENS and (aimed or next(phrases("procedures").places(goal), None) is not None):
        return True
    others = {place + skipped for place in phrases("no_first_steps").places(found) for skipped in (0, 1)}
    firsts = (place for place in phrases("first_steps").places(found) if place not in others)
    first = start if aimed else next(firsts, len(found))
    return any(place > first for place in phrases("further_steps").places(found))


def is_criticism(sentence: str) -> bool:
    """Whether it criticises an answer and tells in which form the user wants to be answered: "too long, bullet points please"."""
    found = tokens(sentence)
    if found[-1:] == ("?",):
        return False
    start = after(found, _FILLERS)
    start = after(found, _FILLERS, start + phrases("criticism_leads").length_at(found, start))
    length = phrases("criticises").length_at(found, start)
    forms = phrases("answer_forms").places(found) if length else ()
    return any(place >= start + length for place in forms)


def _announces(piece: str) -> bool:
    found = tokens(piece)
    if found[-1:] != (":",):
        return False
    start = after(found, _FILLERS)
    length = max(each.length_at(found, start) for each in (_REMEMBER, _REMEMBER_ZH, _REFERENCE))
    place = after(found, phrases("announced"), start + length)
    chinese = _REMEMBER_ZH.length_at(found, start) and len(found) - 1 - place <= _ANNOUNCED_TOKENS
    return bool(length) and (place >= len(found) - 1 or (bool(chinese) and not MARKS & {*found[place:-1]}))
