"""Texts that are handed over without marks: by an order to work on them, an introduction, or a verb of saying. Pure.

Strategy. What introduces such a text tells where it begins; nothing tells where it ends. So all that follows is cut, but for a last
line that asks something about it; and where only the last line speaks of a text, all before it.
"""

import re
from collections.abc import Sequence

from semrouter_memory.language.layouts import is_item, refers_back
from semrouter_memory.language.phrases import pattern, phrases
from semrouter_memory.language.quoted_spans import GAP
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.sentences import QUESTION_MARKS, QUOTATION_MARKS, orders, sentences

_ORDER = pattern(
    r"(?:^|[.!?。！？,，;]\s*|\b(?:please|pls|plz|kindly|you|and|to|me|just|then|n)\s+|请|帮我|麻烦|帮忙|[来再]|把[^。！？\n]{0,20})\W{0,3}{works}"
)
_POINTS = pattern(r"{text_pointers}\s?(?:\w+\s){0,2}{texts}|{texts} (?:below|above|here)")
_ORDER_POINTS = pattern(r"{works}[^.!?]{0,20}(?:this|these|the following|the next|below)\b|{reworks}|[这下]")
_ANNOUNCES = pattern(r"^\W*{announcements}")
_ABOVE = pattern(r"{above}")
_INTRODUCES = pattern(r"{introductions}")
_COLON = re.compile(r"[:：](?!\d|//|\))")
_SAYS = pattern(r"{speech}\s*(?:[:：]\s?(?=\S)|[,，]\s?(?={openers}))|{speech_without_mark}\s?(?={openers})")
_QUOTATION = re.compile(rf"{GAP}+|\"[^\"{GAP}]{{1,60}}\"|“[^”{GAP}]{{1,60}}”")
_PAPER_SAYS = pattern(r"{texts} (?:says?|said|reads?|states?)\s?")
_OWN_PAPER = re.compile(r"\b(?:my|our)(?: [\w-]{1,20}){0,2} $", re.IGNORECASE)
_LEADS_IN = pattern(r"(?:^|(?<=[.!?。！？]))\s*(?P<lead>[^:：\n.!?。！？]{1,60})[:：]\s*[\"'“]?(?={openers})")
_OWN_LEAD = pattern(r"{own_labels}")
_TEXT = pattern(r"{texts}|{saying}")
_INTRODUCTION_CHARS, _LEAD_WORDS, _NAMED_WORDS = 80, 5, 3
_ROLE_SET = re.compile(
    r"^\W*(?i:you are|you're|act as|pretend)\s(?:now )?(?:[A-Z]\w+|(?i:an?|the|my)\s\w+(?: \w+){0,5})[.,]\s+(?=\S)"
)


def without_handed_over(lines: list[str], last: int | None) -> list[str]:
    """The lines, with gaps in place of the texts that are handed over.

    Args:
        last: the last line, where it asks something about the text before it.
    """
    for number, line in enumerate(lines):
        if number and _ABOVE.search(line) and _ORDER.search(line):
            return [*(GAP * len(each) for each in lines[:number]), *map(_without_speech, lines[number:])]
    start = next((found for number, line in enumerate(lines) if (found := _begins(number, lines, last))), None)
    if start:
        number, place = start
        first = lines[number][:place] + GAP * (len(lines[number]) - place)
        behind = [line if each == last else GAP * len(line) for each, line in enumerate(lines)]
        lines = [*lines[:number], first, *behind[number + 1 :]]
    if (
        last is not None
        and (not start or start[0] == last)
        and refers_back(lines[last])
        and not _is_cut(lines, last - 1)
    ):
        lines = [*(GAP * len(line) for line in lines[:last]), *lines[last:]]
    return [_without_speech(line) for line in lines]


def _begins(number: int, lines: Sequence[str], last: int | None) -> tuple[int, int] | None:
    """Where a text begins that this line introduces: its line, and its place in that."""
    line = lines[number]
    if not line.strip(" " + GAP):
        return None
    if (found := _ROLE_SET.match(line)) and not phrases("helpers").occur_in(found.group()):
        return number, found.end()
    order = _ORDER.search(line)
    if place := _in_line(line, order):
        return number, place
    if number == last or not _follows(number, lines, last) or (order and number and _is_cut(lines, number - 1)):
        return None
    bare = line.rstrip()
    stops = bare.endswith((".", "!", "。", "！", *QUESTION_MARKS))
    if bare.endswith(QUESTION_MARKS) and not lines[number + 1].strip() and _POINTS.search(_last_sentence(bare)):
        return number, len(line)
    if order or (not stops and len(bare) <= _INTRODUCTION_CHARS and _INTRODUCES.search(line)):
        return number, len(line)
    if bare.endswith((":", "：")) and not (_OWN_LEAD.search(_last_sentence(bare)) or _is_listed(number, lines)):
        return number, len(line)
    return None


def _is_listed(number: int, lines: Sequence[str]) -> bool:
    """Whether a line names in a few words what the items below it are: "Medication:", "- ramipril 5 mg"."""
    line = lines[number]
    other = _TEXT.search(line) or orders(line) or CJK.search(line)
    return not other and len(line.split()) <= _NAMED_WORDS and is_item(lines[number + 1])


def _in_line(line: str, order: re.Match[str] | None) -> int | None:
    """Where a text begins in the line that introduces it: behind a colon, or behind a sentence that points to it."""
    colon = _COLON.search(line, order.end()) if order else None
    if colon and line[colon.end() :].strip(" " + GAP):
        return colon.end()
    place = 0
    for sentence in sentences(line)[:-1]:
        place += len(sentence)
        asked = sentence.rstrip().endswith(QUESTION_MARKS)
        ordered = bool(_ORDER.search(sentence))
        points = _POINTS.search(sentence) or (ordered and _ORDER_POINTS.search(sentence))
        if (points and (asked or ordered)) or (_ANNOUNCES.match(sentence) and not _OWN_LEAD.search(sentence)):
            return place
    return None


def _last_sentence(line: str) -> str:
    return (sentences(line) or [""])[-1]


def _follows(number: int, lines: Sequence[str], last: int | None) -> bool:
    """Whether a text may follow that was not found already."""
    following = next((each for each in range(number + 1, len(lines)) if lines[each].strip()), None)
    return following is not None and following != last and not _is_cut(lines, following)


def _is_cut(lines: Sequence[str], number: int) -> bool:
    while number > 0 and not lines[number].strip():
        number -= 1
    return lines[number].count(GAP) * 2 > len(lines[number])


def _is_quoted(line: str, place: int) -> bool:
    """Whether what is said from this place on is a quotation that ends in the line."""
    found = _QUOTATION.match(line, place)
    return bool(found and line[found.end() :].strip() and QUOTATION_MARKS.isdisjoint(line[found.end() :]))


def _is_told_from(before: str, says: str) -> bool:
    """Whether users tell in their own words what a paper of theirs says: "my rental contract says I have ..."."""
    return bool(_OWN_PAPER.search(before) and _PAPER_SAYS.fullmatch(says))


def _without_speech(line: str) -> str:
    """Without what somebody else says in it, as in `from the forum: I live ...`."""
    says = (found for found in _SAYS.finditer(line) if not _is_told_from(line[: found.start()], found.group()))
    if found := next((each for each in says if not _is_quoted(line, each.end())), None):
        line = line[: found.end()] + GAP * (len(line) - found.end())
    for led_in in _LEADS_IN.finditer(line):
        lead = led_in["lead"]
        if _INTRODUCES.search(lead) or not (_OWN_LEAD.search(lead) or len(lead.split()) > _LEAD_WORDS):
            return line[: led_in.end()] + GAP * (len(line) - led_in.end())
    return line
