"""Texts that stand between marks: fences, tags, rules, quotation marks, indentation. They are somebody else's, or code. Pure.

Strategy: what a pair of marks encloses is cut out, and the text around it stays. A mark without its fellow encloses all that
follows, because a text that was cut short on its way must not come free by that.
"""

import re
from collections.abc import Container, Iterator, Sequence

TAKEN_OUT = "\ufffc"
"""Stands on a line of its own where something was taken out."""
_GAP = f"\n{TAKEN_OUT}\n"

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTES = re.compile(r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)", re.DOTALL)
_BRACKETED = re.compile(
    r"\[(quote|code|spoiler|doc\w*|file|text|email)\b[^\]\n]{0,80}\].*?(?:\[/\1\]|\Z)", re.DOTALL | re.IGNORECASE
)
_LENTICULAR = re.compile(
    r"^[^\S\n]*+【[^】\n]{1,12}】[^\S\n]*+\n(?s:.*)|^[^\S\n]*+【[^】\n]{1,12}】[^\n]*|【[^】\n]*(?:】|$)", re.MULTILINE
)
_CALL = re.compile(r"\w\((?=(?:[^()\s]+\s+){3})[^()\n]*(?:\)|$)", re.MULTILINE)
"""As in `save_memory(...)`."""
_MARKER = re.compile(
    r"<!--[^\n>]{0,80}\b(?:begin|start|open)\b[^\n>]{0,80}-->.*?(?:<!--[^\n>]{0,80}\b(?:end|stop|close)\b[^\n>]{0,80}-->|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_ESCAPED = re.compile(
    r"&lt;.*(?:&gt;|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|!\[[^\]\n]{0,200}\]\([^)\n]*\)?|^\[[^\]\n]{1,20}\]:\s.*$",
    re.DOTALL | re.MULTILINE,
)
_ENVIRONMENT = re.compile(r"\\begin\{(\w+\*?)\}.*?(?:\\end\{\1\}|\Z)", re.DOTALL)

_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|(?<!\w)<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?P<rest>[^<>\n]{0,300})>", re.DOTALL
)
_CLOSING = re.compile(r"</([A-Za-z][\w:-]{0,40})")
_TOKEN = re.compile(r"<\|[^<>|\n]{0,80}\|>|<</?\w{2,20}>>|\[/?INST\]|<\|[^\n]{0,20}$", re.IGNORECASE | re.MULTILINE)
"""What chat templates mark turns with: whatever stands behind the first one is no message of ours."""
_KNOWN_TAGS = re.compile(
    r"(?:html|head|body|div|span|table|t[rdh]|[uo]l|article|section|main|header|footer|nav|aside|blockquote|pre|code|script|style|title|h\d|strong|em|font|center|form"
    r"|doc\w*|file\w*|text|content|context|source|data|input|output|example|email|mail|message|quote|article|page|web\w*|result\w*|tool\w*|function\w*|search\w*"
    r"|system|user|assistant|developer|human|instructions?|memor(?:y|ies)|notes?|transcript|attachment|untrusted\w*)",
    re.IGNORECASE,
)
_ALONE = re.compile(r"(?:br|hr|img|p|li|input|meta|link|wbr)", re.IGNORECASE)
"""Tags that need no end: they mark the page that they stand on."""

_RULE = re.compile(
    r"^\s*+(?:(?P<sign>[-=_*#~+<>])(?P=sign){2,}.*|[-—–]{2,}.*|\W*+(?:BEGIN|START|END)(?:\s+(?:OF\s+)?[A-Z]\w*)+.*)$"
)
_RULING, _LEAST_RULING = "=*_#~—–-", 3
_INDENTED = re.compile(r"^(?: {4,}+|\t)\s*+\S")
_QUOTED = re.compile(r"^\s*>")
_GOES_ON = re.compile(r"[^.!?:…。！？\s]\s*$")


def _is_rule(line: str) -> bool:
    """A ruled line, or one with a title in it: "=== minutes ==="."""
    bare = line.strip()
    before, behind = len(bare) - len(bare.lstrip(_RULING)), len(bare) - len(bare.rstrip(_RULING))
    return min(before, behind) >= _LEAST_RULING or bool(_RULE.match(line))


def without(text: str) -> str:
    """The text, with `TAKEN_OUT` in place of what is enclosed in it."""
    text = text.replace(TAKEN_OUT, " ")
    for enclosing in (_CODE, _QUOTES, _BRACKETED, _ENVIRONMENT, _MARKER, _ESCAPED, _LENTICULAR, _CALL):
        text = enclosing.sub(_GAP, text)
    token = _TOKEN.search(text)
    text = _without_tagged(text[: token.start()] if token else text)
    return "\n".join(_outside(text.split("\n")))


def _without_tagged(text: str) -> str:
    """Without elements; of a page with tags that do not match, without all from its first tag on."""
    kept, open_tags, position = list[str](), list[str](), 0
    started = 0
    closed = frozenset(name.lower() for name in _CLOSING.findall(text))
    for tag in _TAG.finditer(text):
        name = (tag.group("name") or "").lower()
        if not name:
            continue  # A comment: `own_words` knows our own marks in it.
        if not _marks(name, tag, closed):
            continue
        if _ALONE.fullmatch(name) or (tag.group("close") and name not in open_tags):
            # A page in pieces: its end is where its last tag stands.
            start = started if open_tags else tag.start()
            return "".join([*kept, text[position:start], "\n", _behind_page(text, tag.start())])
        if tag.group("close"):
            del open_tags[open_tags.index(name) :]
            if not open_tags:
                kept.append(text[position:started] + _GAP)
                position = tag.end()
        elif not tag.group("rest").rstrip().endswith("/"):
            started = started if open_tags else tag.start()
            open_tags.append(name)
    return "".join([*kept, text[position:started] if open_tags else text[position:]])


def _behind_page(text: str, start: int) -> str:
    """What stands behind the last tag, unless that opens something."""
    last = list(_TAG.finditer(text, start))[-1]
    ends = last.group("close") or _ALONE.fullmatch(last.group("name") or "br")
    return text[last.end() :] if ends else ""


def _marks(name: str, tag: re.Match[str], closed: Container[str]) -> bool:
    """Whether it is a tag that encloses: `git checkout <branch>` is none."""
    known = _KNOWN_TAGS.fullmatch(name) or _ALONE.fullmatch(name)
    return bool(known or tag.group("close") or name in closed)


def _outside(lines: Sequence[str]) -> Iterator[str]:
    """The lines that stand neither between rules, nor indented, nor in a quotation that goes on without its mark."""
    rules = [number for number, line in enumerate(lines) if _is_rule(line)]
    inside = range(rules[0], _end(rules, lines) + 1) if rules else range(0)
    quoted = False
    for number, line in enumerate(lines):
        quoted = bool(_QUOTED.match(line) or (quoted and line.strip() and _GOES_ON.search(lines[number - 1])))
        if number in inside or quoted or (_INDENTED.match(line) and number):
            yield TAKEN_OUT
        else:
            yield line


def _end(rules: Sequence[int], lines: Sequence[str]) -> int:
    """The last line that rules enclose: a single one, and one that begins the text, have no fellow."""
    first = next(number for number, line in enumerate(lines) if line.strip())
    return rules[-1] if len(rules) > 1 and rules[0] != first else len(lines)
