"""The user's own words in a message that a client wrote more into: the date, its settings, notes to the model, a prompt. Pure.

Strategy: a prompt that a framework filled in names its parts ("Context:", "Question:", "Answer:"), and one of these is what the user
said. Any other frame stands at the beginning or at the end, and its layout parts it from the user's words: an element, brackets, lines
of their own. What it is about tells it from a paragraph of the user's: the clock, the device, the session, who is asking, how to
answer. In doubt it stays.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice

from semrouter_memory.language.phrases import pattern, words_of
from semrouter_memory.language.sentences import asks, orders, sentences

_LONGEST_LINE = 400
_TYPED_CELLS = 2
_MOST_PIECES = 8
"""Frames that stand one behind another."""
_MOST_LINES = 200
"""Of one frame."""
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

_PART = pattern(
    r"(?m)^[ \t]*(?:(?:#{1,6} |\*\*)?(?:(?P<own>{slots})|(?P<speaker>{slot_speakers})|(?P<given>{given_parts})|{answer_parts})\**[ \t]*[:：]"
    r"|\[\[ ## (?P<field>(?P<own_field>{slots})|\w{1,80}) ## \]\]\s)"
)
"""What begins a part of a prompt: "Question: ...", "### Response:", "[[ ## question ## ]]"."""
_MOST_PARTS, _MOST_CHARS = 5_000, 300_000
"""A text with more is looked at for no part: it would hold the process."""
_FENCE, _FIELD = "```", "[[ ## "
_LEAD_CHARS = 1_000
_EXPLAINS = "the "
"""Begins what a prompt tells of a part that follows: "Question: the input question you must answer"."""
_ASKS_FOR_PART = pattern(r"{slot_orders}")
_RETURNS = pattern(r"\W*(?:observation:|{returned_parts}[^\n]{0,120}[:：][ \t]*\n)")


class _Frame(IntEnum):
    NONE = 0
    MAYBE = 1
    """People list such things, too: of a block of lines, another one decides."""
    SURE = 2


def unframed(text: str, *, surely: bool = False) -> str:
    """The text without the frame that a client wrote around it.

    Args:
        surely: a part that is called the user's counts only where no other text of the message can have called itself so.
    """
    if surely and is_returned(text):
        return ""
    given = text.strip()
    if (own := _filled_in(given, surely=surely)) is not None:
        text = given = own
    for _ in range(_MOST_PIECES):
        inner = _in_user_element(given, surely=surely)
        if inner == given:
            break
        text = given = inner
    if surely and given.startswith("#"):
        return text
    headed = _HEADINGS.match(given) if given.startswith("#") else None
    rest = headed["own"].strip() if headed else given
    for _ in range(_MOST_PIECES):
        shorter = _without_last(_without_first(rest, surely=surely))
        if not shorter or shorter == rest:
            break
        rest = shorter
    rest = _within_own_element(rest, "sure_elements" if surely else "own_elements")
    label = _OWN_LABEL.match(rest)
    if label and not _SPEAKS.search(rest, label.end()) and not (surely and rest == given):
        return rest[label.end() :]
    return rest if len(rest) < len(given) else text


def _filled_in(text: str, *, surely: bool) -> str | None:
    """What the user said in a prompt that a framework filled in; None where the text is none, "" where no part of it is surely the user's."""
    labelled = text.endswith((":", "：")) or _PART.match(text)
    if not (labelled or _FIELD in text or ("\n" in text[:_LEAD_CHARS] and _asks_for_part(text))):
        return None  # Each message of a conversation is looked at with each request: few are read whole.
    if len(text) > _MOST_CHARS or len(parts := [*islice(_PART.finditer(text), _MOST_PARTS)]) == _MOST_PARTS:
        return "" if surely else None
    fields = [part for part in parts if part["field"]]
    if fields:
        parts, own = fields, [part["own_field"] is not None for part in fields]
        if surely and parts[0].start():
            return ""
    else:
        completes = bool(parts) and parts[-1].end() == len(text) and not parts[-1]["own"]
        own = [bool(part["own"] or (part["speaker"] and completes and surely)) for part in parts]
        if not any(own):
            return text.rpartition(_FENCE)[2].strip() or None if _FENCE in text and _asks_for_part(text) else None
        lead = text[: parts[0].start()].strip()
        continued = len(parts) > 1 and completes and not (lead and surely)
        alone = len(parts) == 1 and not (lead or text.startswith("#"))
        if not (continued or alone or _asks_for_part(lead)):
            return None
    ends = [*(part.start() for part in parts[1:]), len(text)]
    said = {
        place: told
        for place, (part, end) in enumerate(zip(parts, ends, strict=True))
        if own[place] and (told := text[part.end() : end].strip())
    }
    last = max(said, default=None)
    if last is None:
        return "" if surely and fields else None
    first = next(place for place, told in said.items() if place == last or not told.startswith(_EXPLAINS))
    if surely and first < last and any(part["given"] or part["field"] for part in parts[first:]):
        return ""
    return said[last]


def _asks_for_part(lead: str) -> bool:
    """Whether a prompt begins with an order to answer what a part of it asks."""
    first = next((line for line in lead[:_LEAD_CHARS].splitlines() if line.strip() and not line.startswith("#")), "")
    return bool(_ASKS_FOR_PART.search(first))


def _in_user_element(text: str, *, surely: bool) -> str:
    """What stands in an element that is named after the user, wherever that is."""
    found = _ANYWHERE.search(text) if "<" in text else None
    end = text.rfind(f"</{found['name']}>") if found else -1
    if not found or end < found.end() or (surely and not _is_last(text, found, end)):
        return text
    return text[found.end() : end].strip() or text


def _is_last(text: str, opens: re.Match[str], end: int) -> bool:
    """Whether an element is the one of its name, ends the text, and stands behind nothing but others and an order to answer what it asks."""
    name, before = opens["name"], text[: opens.start()].strip()
    alone = text.count(f"<{name}") == text.count(f"</{name}") == 1 and not text[end:].strip().partition(">")[2]
    return alone and (not before or before.startswith("<") or _asks_for_part(before))


def is_returned(text: str) -> bool:
    """Whether a message of the user's is what a tool or a check returned, as where a framework knows no tool calls."""
    return bool(_RETURNS.match(text))


def speaker_chars(texts: Sequence[str]) -> int:
    """How long the name is that the last text begins with, where each of several does ("Alice: hello").

    Of one text alone it may be what that is about: "Tokyo: when does my flight leave?"
    """
    named = [_SPEAKER.match(text) for text in texts] if len(texts) > 1 else []
    return named[-1].end() if named and all(named) and named[-1] else 0


def _without_first(text: str, *, surely: bool) -> str:
    """Without the frame that it begins with, if any; empty where nothing else is there."""
    if (element := _OPENS.match(text)) and _is_frame_element(element["name"]):
        end = element.group() if element["alone"] else f"</{element['name']}>"
        return text.partition(end)[2].lstrip() if end in text else text
    if bracketed := _BRACKETED.match(text):
        told = bracketed.group(bracketed.lastgroup or 0)
        if not _is_note(told):
            return text
        if surely and "\n" not in bracketed.group():
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
    return not words_of("frame_elements").isdisjoint(re.split("[_:-]", name.lower()))


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
    for line in lines[:_MOST_LINES]:
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


def _within_own_element(text: str, names: str) -> str:
    """What stands in the element that the text is, where its name, one of this list, says that the user wrote it."""
    element = _OPENS.match(text)
    if element and element["name"] == _closed_last(text) and element["name"].lower() in words_of(names):
        return text[element.end() : text.rfind("</")].strip() or text
    return text
