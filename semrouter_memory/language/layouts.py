"""Texts that are another's words, or data, by their layout: code, tables, mails, chats, pages. Pure.

Strategy. What marks each of its lines (code, tables, quoted lines, chats) is cut line by line, and what marks
only its beginning or its end (mails, letters, pages) is cut as far as that may reach: to the end of the message, but for a last
line that asks something about it. In doubt it is cut.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from semrouter_memory.language.phrases import pattern, words_of
from semrouter_memory.language.quoted_spans import GAP
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.words import tokens, word_count

_ROLE = pattern(r"^\s*(?:[\[<(#*【]+\s*)?{roles}\s*(?:[\])>*】]+\s*[:：]?|[:：])")
_RULE = re.compile(
    r"^(?:\s*(?:([-=_*#~+<>])\1{2,}|[-—–]{2,}\s)|[-=*\s]*(?:BEGIN|START|END)(?: OF)?(?: [A-Z]+)+)|[-=_*~—]{3,}\s*$"
)
_CODE = pattern(r"\s*{code_lines}")
_CODE_TOKEN = re.compile(
    r"[_={};\\|~^]|\w\(|\b[a-z_]\w{1,30}\.[a-z_]\w{1,30}[.(\[]|::|\b\w{1,30}/\w{1,30}/|0x[\da-f]{2}|--\w"
)
_SETTING = re.compile(r"\s*[a-z_][\w.-]*: ?\S+\s*$")
_BULLET = re.compile(r"\s*(?:[-*·–]|(?P<glyph>[•▪●■◆►✓✔☐])|\d{1,2}[.)、]|\[[ x]?\](?=\s))\s*\S", re.IGNORECASE)
_SPEAKER = re.compile(
    r"\W{0,4}(?:\[?\d{1,2}[:.]\d\d[^\]\n]{0,12}\]?\W{1,3})?(?![-•]\s)(?P<name>@?[\w.'’-]{1,24}(?: [\w.'’-]{1,16}){0,2})"
    r"\*{0,2}(?: ?[(（][^)）\n]{0,40}[)）])?\*{0,2}[:：>]\*{0,2}\s*\S"
)
_LETTER = pattern(r"\s*{letter_lines}")
_TO_ASSISTANT = pattern(r"\s*(?:dear|hi|hello|hey)\s{assistants}")
_ADDRESS = pattern(r"\s*(?:from|to|date|sent|name|title|author|de|à|von|an|para)\s*[:：]")
_ENDING = pattern(r"\s*{ending_lines}")
_PAGE = pattern(r"\s*{page_lines}")
_INDENTS, _SENTENCE_ENDS = ("    ", "\t"), tuple(".!?:…。！？：")

_OWN_LABELS = words_of("own_labels")
_TWO = ("i", "me", "you", "我", "你")
"""Speakers of a chat with oneself in it."""
_TITLE_WORDS, _TITLED_WORDS, _SHOUTED_CHARS, _TYPED_BULLETS = 10, 3, 6, 12
_CODE_SHARE = 0.3
_OUTPUT_LINES = 3
_CHAT_LINES = 2
_ITEM_WORDS = 8
_OPENS = pattern(r"{openers}")
_THANKS_WORDS, _WITH_THANKS = 3, 2
_CELL_CHARS = 6
_SIGNED_CHARS = 60
_WRAPPED_CHARS = 40
"""A shorter line was ended by the user."""


def is_gap(line: str) -> bool:
    """Whether the whole line was cut."""
    return GAP in line and not line.replace(GAP, "").strip(" \t.,;:()*-")


def is_item(line: str) -> bool:
    """Whether it begins as an item of a list does."""
    return bool(_BULLET.match(line))


def list_in_line(text: str) -> str:
    """A list with the line that introduces it, as it would be written in one line."""
    lead, *items = text.strip().splitlines() or [""]
    told = [line[found.end() - 1 :].strip(" ,;") for line in items if (found := _BULLET.match(line))]
    return f"{lead} {', '.join(told)}" if told else text


def gap(line: str) -> str:
    return GAP * len(line)


def without_quoted(lines: Sequence[str]) -> Iterator[str]:
    """The lines, with gaps in place of those that `>` marks, and of those in which they go on: a mail's lines are wrapped."""
    quoted, before = False, ""
    for line in lines:
        quoted = line.lstrip().startswith(">") or (
            quoted
            and bool(line.strip())
            and len(before) > _WRAPPED_CHARS
            and not before.rstrip().endswith(_SENTENCE_ENDS)
        )
        before = line
        yield gap(line) if quoted else line


def without_laid_out(lines: list[str]) -> list[str]:
    """The lines, with gaps in place of what is laid out as something else than a person's own words."""
    for number, line in enumerate(lines):
        if _ROLE.match(line):
            lines = [*lines[:number], *map(gap, lines[number:])]
            break
    for find in (_mails, _ruled, _marked, _chats, _lists, _pages):
        found = set(find(lines))
        lines = [gap(line) if number in found else line for number, line in enumerate(lines)]
    return lines


def _ruled(lines: Sequence[str]) -> range:
    """What rules enclose: a single one, one that begins the text, and those around a document's head have no fellow."""
    rules = [number for number, line in enumerate(lines) if _RULE.match(line) or _RULE.search(line.strip()[-3:])]
    if not rules:
        return range(0)
    heads = all(":" in line for line in lines[rules[0] + 1 : rules[-1]] if line.strip())
    closed = len(rules) > 1 and not heads and any(map(str.strip, lines[: rules[0]]))
    return range(rules[0], rules[-1] + 1 if closed else len(lines))


def _marked(lines: Sequence[str]) -> Iterator[int]:
    """Code, logs, settings and tables, with a line or two that stand between two such lines."""
    cells = [line.count(";") + line.count(",") - line.count(", ") for line in lines]
    settings = [bool(_SETTING.match(line)) and not _is_own(line.partition(":")[0]) for line in lines]
    found = [number for number, line in enumerate(lines) if _is_code(line) or (number and line.startswith(_INDENTS))]
    coded = set(found)
    for number, line in enumerate(lines):
        neighbours = [each for each in (number - 1, number + 1) if 0 <= each < len(lines)]
        is_set = settings[number] and any(settings[each] or each in coded for each in neighbours)
        if is_set or _is_row(line, cells[number], [cells[each] for each in neighbours]):
            found.append(number)
        elif number and "-->" in lines[number - 1]:
            found += [number, *([number + 1] if line.strip() and number + 1 < len(lines) else [])]
    found.sort()
    yield from found
    for number, following in pairwise(found):
        if following - number <= _OUTPUT_LINES:
            yield from range(number, following)


def _gaps(line: str) -> int:
    """How often more than a blank sets columns apart, and not sentences."""
    cells = [each.rstrip() for each in line.split("  ") if each.strip()]
    return sum(not each.endswith((*_SENTENCE_ENDS, ",")) for each in cells[:-1])


def _is_row(line: str, cells: int, neighbours: Sequence[int]) -> bool:
    """Whether it is a row of a table: in columns, or with separators like those of the lines next to it."""
    if line.count("|") > 1 or line.count("\t") > 1 or _gaps(line) > 1:
        return True
    if CJK.search(line):
        return cells > 1 and cells in neighbours and len(line) <= _CELL_CHARS * (cells + 1)
    return cells > 1 and max(neighbours, default=0) > 1


def _is_code(line: str) -> bool:
    if _CODE.match(line):
        return True
    tokens = [token.strip(".,!?:;()[]\"'*") for token in line.split()]
    coded = sum(bool(_CODE_TOKEN.search(token)) for token in tokens)
    return coded > 1 and coded >= _CODE_SHARE * len(tokens) and not CJK.search(line)


def _chats(lines: Sequence[str]) -> Iterator[int]:
    """Lines that a speaker's name begins, what stands between them, and what may go on behind the last of them."""
    found = {number: label for number, line in enumerate(lines) if (label := _SPEAKER.match(line))}
    labels = {number: label["name"] for number, label in found.items()}
    names = list(labels.values())
    told = all(_is_told(lines[number], label.end() - 1) for number, label in found.items())
    if told and len(names) == len({*names}) > 1 and {*map(str.lower, names)}.isdisjoint(("you", "你", "我")):
        return  # A list: each name stands once, and no person speaks.
    speakers = [
        number for number, name in labels.items() if not _is_own(name) and (_is_name(name) or names.count(name) > 1)
    ]
    others = sum(bool(line.strip()) for line in lines) - 1
    alone = len(speakers) == 1 and not (labels[speakers[0]][:1].isupper() and others)
    if not speakers or alone or 2 * len(speakers) < len(labels):
        return
    yield from range(speakers[0], speakers[-1] + 1)
    last = closing(lines)
    if speakers[-1] - speakers[0] == len(speakers) - 1 >= _CHAT_LINES:
        return  # Each line says who speaks, so that no line goes on with another.
    for number in range(speakers[-1] + 1, len(lines)):
        if not lines[number].strip() or number == last:
            break
        yield number


def _is_told(line: str, place: int) -> bool:
    """Whether what stands behind a label is told of it, as in "Nina: cashews, size 116", and not said by a person."""
    value = line[place:]
    return word_count(value) <= _ITEM_WORDS and not (
        _ADDRESS.match(line) or _is_code(line) or _names_person(value) or _OPENS.search(value)
    )


def _is_name(label: str) -> bool:
    return " " not in label or all(word[:1].isupper() for word in label.split())


def _is_own(name: str) -> bool:
    """Whether a label is one under which people list things of their own."""
    if name.lower() in _TWO:
        return False
    return any(word in _OWN_LABELS or word.isdigit() for word in name.lower().split()) or _names_person(name)


def _names_person(text: str) -> bool:
    return not words_of("persons").isdisjoint(tokens(text))


def _lists(lines: Sequence[str]) -> list[int]:
    """Lists that are longer than what people type, or have signs that keyboards do not."""
    bullets = [number for number, line in enumerate(lines) if _BULLET.match(line)]
    glyphs = [number for number in bullets if (found := _BULLET.match(lines[number])) and found["glyph"]]
    return bullets if len(bullets) > _TYPED_BULLETS else glyphs


def closing(lines: Sequence[str]) -> int | None:
    """The last line, where it asks something about the text before it; a word of thanks may stand behind it."""
    said = [number for number, line in enumerate(lines) if line.strip()]
    if len(said) > _WITH_THANKS and _is_thanks(lines[said[-1]]) and not lines[said[-2]].rstrip().endswith((":", "：")):
        said.pop()
    return said[-1] if len(said) > 1 and asks_about(lines[said[-1]]) else None


def _is_thanks(line: str) -> bool:
    return len(line.split()) <= _THANKS_WORDS and not (CJK.search(line) or _names_person(line) or asks_about(line))


def _mails(lines: Sequence[str]) -> Iterator[int]:
    """Mails and letters: from their head or greeting on, or up to their signature; of one to the assistant the signature."""
    last, end, addressed = closing(lines), _end(lines), _TO_ASSISTANT.match(lines[0])
    for number, line in enumerate(lines):
        if number == last or (addressed and not number):
            continue
        if (
            _LETTER.match(line)
            and line.rstrip().endswith("wrote:")
            and is_gap(next(filter(str.strip, lines[number + 1 :]), ""))
        ):
            yield number  # Marks tell where the quotation below it ends.
            continue
        if number < end and (_LETTER.match(line) or (_ADDRESS.match(line) and _ADDRESS.match(lines[number + 1]))):
            yield from _all_but(range(number, len(lines)), last)
            return
        if _ENDING.match(line) and (number or len(line) > _SIGNED_CHARS):
            yield from _all_but(range(number if addressed else 0, len(lines)), last)
            return


def _pages(lines: Sequence[str]) -> Iterator[int]:
    """Pages, posts and documents, from their title on."""
    last, end, first = closing(lines), _end(lines), True
    for number, line in enumerate(lines[:-1]):
        if not line.strip() or is_gap(line) or number == last:
            continue
        if number < end and (_PAGE.match(line) or _is_title(line, lines[number + 1], first=first)):
            yield from _all_but(range(number, len(lines)), last)
            return
        first = False


def _end(lines: Sequence[str]) -> int:
    """The last line with text."""
    return next((number for number in reversed(range(len(lines))) if lines[number].strip()), 0)


def _all_but(numbers: range, last: int | None) -> Iterator[int]:
    return (number for number in numbers if number != last)


def _is_title(line: str, following: str, *, first: bool) -> bool:
    """A line in capitals, or in capitalised words above an empty line: the name of what follows."""
    bare, words = line.strip(), line.split()
    if bare.endswith((".", "!", "?", ":", "…", ",")) or len(words) > _TITLE_WORDS or not bare[:1].isupper():
        return False
    if bare.isupper():
        return (first or not following.strip()) and len(bare) >= _SHOUTED_CHARS and not _names_person(bare)
    capitals = sum(word[:1].isupper() or len(word) <= len("from") for word in words)
    return not following.strip() and len(words) >= _TITLED_WORDS and capitals == len(words)


# -- what asks about a text ---------------------------------------------------------------------------------------------


_STARTS = pattern(
    r"^\W*(?:(?:ok|okay|so|now|can|could|would|you|u|please|pls|plz|kindly|just|and|then|help|me|to|请|請|帮|幫|我|你|麻烦)\s*(?:,\s*)?)*{works}"
)
_ASKS = pattern(
    r"^\W*(?:(?:ok|so|and)\s*)?{asks}|(?:->|=>|→)\s?\w+\s*$|\b{text_pointers}\s(?:\w+\s)?{texts}[^.!\n]*\?|^\s*(?:\^|↑|👆)|tl;?dr\W*$|^.{0,24}{asks}"
)
_BACK = pattern(
    r"{works}\W*(?:$|[.,;?!，。]|(?:for me|in|into|to|as|and|pls|please|this|these|that|it|the above|them|一下|上面|以上|这|成)|\d+ )"
)


def asks_about(line: str) -> bool:
    """Whether a line asks for work on a text, or something about one."""
    return bool(_STARTS.match(line) or _ASKS.search(line))


def refers_back(line: str) -> bool:
    """Whether a line speaks of the text before it and not of something that it names."""
    return bool(_ASKS.search(line) or (_STARTS.match(line) and _BACK.search(line)))
