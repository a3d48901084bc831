"""The user's own words in a message that a client wrote more into: the date, its settings, notes to the model, labels. Pure.

Strategy: such a frame stands at the beginning or at the end, and its layout parts it from the user's words: an element, brackets, lines
of their own. What it is about tells it from a paragraph of the user's: the clock, the device, the session, who is asking, how to
answer. In doubt it stays.
"""

import re
from collections.abc import Sequence
from enum import IntEnum

from semrouter_memory.language.phrases import pattern, words_of
from semrouter_memory.language.sentences import asks, orders, sentences

_LONGEST_LINE = 400
_TYPED_CELLS = 2
_MOST_PIECES = 8
"""Frames that stand one behind another."""
_CELLS = re.compile(r"\s*[|;·｜；]\s*")
_OPENS = re.compile(r"<(?P<name>[A-Za-z][\w:-]{0,40})(?:\s[^<>\n]{0,200}?)?(?P<alone>/?)>")
_ANYWHERE = re.compile(r"<(?P<name>user[_-](?:query|question|message|input|request|prompt))>", re.IGNORECASE)
_BRACKETED = re.compile(
    r"(?:\[(?P<square>[^\[\]\n]{1,300})\]|【(?P<thick>[^【】\n]{1,300})】|\((?P<round>[^()\n]{1,300})\)(?=\s*\n))(?![(:：])\s*(?=\S)"
)
_BRACKETS = frozenset({"[]", "()", "【】", "（）"})
_ADDRESSED = re.compile(r"(?:\[[^\[\]\n]*\]\s*)?[^\W\d_][^:\n,.?!]{0,30}:\s+(?=\S)")
"""Who speaks, behind the time of a chat's line."""
_SPEAKER = re.compile(r"@?[^\W\d_](?:[\w'’.-]|[ ](?=\w)){0,30}(?: ?[(（][^()（）\n]{1,30}[)）])?(?::\s+|：\s*)(?=\S)")
_CHAT_LINE = re.compile(r"^\[[^\[\]\n]*\d", re.MULTILINE)
"""Of several, the user pasted a chat."""
_CLOCK = re.compile(r"\b\d{1,2}:\d\d\b|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\d{4}年\d{1,2}月\d{1,2}日")
_FENCED = pattern(r"[^\n]{0,60}{frame_words}[^\n]{0,60}[:：][ \t]*\n(?P<fence>```|~~~)")
_NOTE = pattern(r"\W*{frame_notes}")
_HEADING = pattern(r"#{1,6}\s{1,3}(?:\w{1,20}\s){0,2}{frame_words}\W*")
_HEADINGS = pattern(r"(?s)#{1,6}\s[^\n]*\n.*?\n#{1,6}\s{1,3}{request_labels}\W*\n(?P<own>.+?)(?=\n#{1,6}\s|\Z)")
"""Parts with headings, of which one says that it is the user's."""
_RULE = frozenset("-=_*")
_SHORTEST_RULE = 3
_LEAD = pattern(r"\W*{frame_leads}\s*[:：]\s*")
_ANY_LABEL = re.compile(r"[-*·•\s]*[\w'’][\w'’ -]{0,30}[:：=]\s*\S")
_CLIENT_LABEL = pattern(r"[-*·•\s]*{client_labels}\W{0,3}[:：=]")
_SENTENCE = pattern(r"\W*{frame_sentences}")
_ANSWERING = pattern(r"\W*{answering_sentences}")
_OWN_LABEL = pattern(
    r"(?:\*\*|#{1,6}\s)?{request_labels}(?:\s?[(（][^()（）\n]{0,40}[)）])?\s*(?:[:：]\**\s*|\n\s*)(?=\S)"
)

_SPEAKS = pattern(r"(?m)^\s*{roles}\s*[:：]")
"""Of several, they are a conversation that is written out."""


class _Frame(IntEnum):
    NONE = 0
    MAYBE = 1
    """People list such things, too: of a block of lines, another one decides."""
    SURE = 2


def unframed(text: str) -> str:
    """The text without the frame that a client wrote around it."""
    found = _ANYWHERE.search(text) if "<user" in text.lower() else None
    if found and (end := text.rfind(f"</{found['name']}>")) > found.end() and (own := text[found.end() : end].strip()):
        return unframed(own)
    rest = text.strip()
    if rest.startswith("#") and (headed := _HEADINGS.match(rest)):
        rest = headed["own"].strip()
    for _ in range(_MOST_PIECES):
        shorter = _without_last(_without_first(rest))
        if not shorter or shorter == rest:
            break
        rest = shorter
    rest = _within_own_element(rest)
    label = _OWN_LABEL.match(rest)
    if label and not _SPEAKS.search(rest, label.end()):
        return rest[label.end() :]
    return rest if len(rest) < len(text.strip()) else text


def speaker_chars(texts: Sequence[str]) -> int:
    """How long the name is that the last text begins with, where each of several does ("Alice: hello").

    Of one text alone it may be what that is about: "Tokyo: when does my flight leave?"
    """
    named = [_SPEAKER.match(text) for text in texts] if len(texts) > 1 else []
    return named[-1].end() if named and all(named) and named[-1] else 0


def _without_first(text: str) -> str:
    """Without the frame that it begins with, if any; empty where nothing else is there."""
    if (element := _OPENS.match(text)) and _is_frame_element(element["name"]):
        end = element.group() if element["alone"] else f"</{element['name']}>"
        return text.partition(end)[2].lstrip() if end in text else text
    if bracketed := _BRACKETED.match(text):
        told = bracketed.group(bracketed.lastgroup or 0)
        if not _is_note(told):
            return text
        timed = _CLOCK.search(told)
        if timed and _CHAT_LINE.search(text, bracketed.end()):
            return text
        speaker = _ADDRESSED.match(text, bracketed.end()) if timed else None
        return text[speaker.end() if speaker else bracketed.end() :]
    if ("```" in text or "~~~" in text) and (fenced := _FENCED.match(text)):
        behind = text.find(f"\n{fenced['fence']}", fenced.end())
        return text[behind + 1 + len(fenced["fence"]) :].lstrip() if behind >= 0 else text
    return text[_framing_chars(text.splitlines(keepends=True)) :].lstrip() if _may_begin(text) else text


def _is_frame_element(name: str) -> bool:
    return not words_of("frame_elements", "word_lists").isdisjoint(re.split("[_:-]", name.lower()))


def _may_begin(text: str) -> bool:
    """Whether more than one line is there, and the first may be a frame."""
    first, _, rest = text.partition("\n")
    return bool(rest.strip()) and _frame_in(first) is not _Frame.NONE


def _without_last(text: str) -> str:
    if (element := _closed_last(text)) and _is_frame_element(element):
        start = text.rfind(f"<{element}")
        return text[:start].rstrip() if start > 0 else text
    start = text.rfind("\n") + 1
    if not start > 0 or len(text) - start > _LONGEST_LINE:
        return text
    last = text[start:]
    if last[0] + last[-1] in _BRACKETS and not (last[0] in last[1:] or last[-1] in last[:-1]):
        return text[:start].rstrip() if _is_note(last[1:-1]) else text
    if _frame_in(last) is _Frame.NONE:
        return text
    rest = text[: len(text) - _framing_chars(text.splitlines(keepends=True)[::-1])]
    is_apart = rest[len(rest.rstrip()) :].count("\n") > 1
    return rest.rstrip() if is_apart else text


def _closed_last(text: str) -> str:
    """The name of the element that the text ends with; "" for none."""
    return text[text.rfind("</") + 2 : -1] if text.endswith(">") and "</" in text else ""


def _framing_chars(lines: Sequence[str]) -> int:
    """How many characters the first lines have that are a frame. Of lines without a blank one between them one must be sure to be."""
    framing = chars = 0
    surest = _Frame.NONE
    for line in lines:
        blank = not line.strip()
        frame = _Frame.NONE if blank else _frame_in(line)
        if not blank and frame is _Frame.NONE:
            break
        surest, chars = _Frame.NONE if blank else max(surest, frame), chars + len(line)
        framing = chars if surest is _Frame.SURE else framing
    return framing


def _frame_in(line: str) -> _Frame:
    """Whether the line is one of a frame."""
    line = line.strip()
    if not line or len(line) > _LONGEST_LINE:
        return _Frame.NONE
    if len(line) >= _SHORTEST_RULE and _RULE.issuperset(line):
        return _Frame.MAYBE
    if _HEADING.fullmatch(line):
        return _Frame.SURE
    cells = _CELLS.split(line)
    labels = [_ANY_LABEL.match(cell) for cell in cells]
    value = line[labels[0].end() - 1 :] if labels[0] else line
    labelled = all(labels) and not (_OWN_LABEL.match(line) or asks(value) or orders(value))
    if labelled and (len(cells) > _TYPED_CELLS or any(map(_CLIENT_LABEL.match, cells))):
        return _Frame.SURE
    return _spoken(line) or (_Frame.MAYBE if labelled else _Frame.NONE)


def _spoken(line: str) -> _Frame:
    """The same of a line of sentences."""
    sure = False
    if lead := _LEAD.match(line):
        line = line[lead.end() :]
        sure = bool(_NOTE.match(lead.group()))
    said = [each.strip() for each in sentences(line)]
    told = [bool(_SENTENCE.match(each)) for each in said]
    if all(found or _ANSWERING.match(each) for found, each in zip(told, said, strict=True)):
        return _Frame.SURE if sure or any(told) else _Frame.MAYBE
    return _Frame.NONE


def _is_note(told: str) -> bool:
    """Whether what stands in brackets is a client's: a time, a note to the model, its settings."""
    return bool(_CLOCK.search(told) or _NOTE.match(told) or _frame_in(told) is _Frame.SURE)


def _within_own_element(text: str) -> str:
    """What stands in the element that the text is, where its name says that the user wrote it."""
    element = _OPENS.match(text)
    if (
        element
        and element["name"] == _closed_last(text)
        and element["name"].lower() in words_of("own_elements", "word_lists")
    ):
        return text[element.end() : text.rfind("</")].strip() or text
    return text
