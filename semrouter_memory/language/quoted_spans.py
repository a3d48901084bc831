"""Texts that stand between marks: fences, elements, quotation marks, backticks. They are another's words, or code. Pure.

Strategy: what a pair of marks encloses is cut, and the text around it stays. A mark without its fellow encloses all that
follows, because a text that was cut short on its way must not come free by that.
"""

import re
from collections.abc import Iterable

from semrouter_memory.language.phrases import pattern, words_of
from semrouter_memory.language.scripts import CJK, CJK_RANGE

GAP = "\ufffc"
"""Stands for each character that was cut, so that places in the text stay the same."""

_PAIRS = (
    ("<!-- semrouter-memory:begin", "semrouter-memory:end -->"), ("```", "```"), ("~~~", "~~~"), ('"""', '"""'), ("'''", "'''"),
    ("<![CDATA[", "]]>"), ("[quote", "[/quote]"), ("[code", "[/code]"), ("\\begin{", "\\end{"),
)  # fmt: skip
_TOKEN = re.compile(r"<\|[^<>|\n]{0,80}\|>|<</?\w{2,20}>>|\[/?INST\]|<\|[^\n]{0,20}$", re.IGNORECASE | re.MULTILINE)
"""What chat templates mark turns with: what stands behind the first one is no message of a user."""
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|(?<!\w)<(?P<close>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?P<rest>[^<>\n]{0,300})>", re.DOTALL
)
_OPENS = re.compile(r"<!--[^\n>]{0,80}\b(?:begin|start|open)\b", re.IGNORECASE)
_KNOWN = pattern("{tags}")
_ALONE = words_of("tags_alone")

_BEGINNING = ("p", "li")
"""Tags without an end that stand before a text and not behind one."""

_QUOTES = (
    ("“", "”"),
    ("«", "»"),
    ("「", "」"),
    ("『", "』"),
    ("„", "“”"),
    ("《", "》"),
    ('(?<!\\d)"', '"'),
)
_QUOTE = re.compile(
    "|".join(f"{opening}[^{closing}]*(?:[{closing}]|\\Z)" for opening, closing in _QUOTES)
    + r"|(?<![\w'’])['‘](?=\S)(?:[^'’\n]|(?<=\w)['’](?=\w)){1,600}['’](?!\w)"
)
_INLINE = re.compile(
    r"(`{1,2})(?P<code>[^`\n]*)\1|!\[[^\]\n]{0,200}\]\([^)\n]*\)?|&lt;.*(?:&gt;|$)"
    rf"|[A-Za-z\d_]\((?=(?:[^()\s]{{1,80}}\s+){{3}}|[^()\n]{{0,80}}[{CJK_RANGE}]{{4}})[^()\n]*(?:\)|$)",
    re.MULTILINE,
)
"""A command or name in backticks; an image; a call, as in `save_memory(...)`; markup that was escaped."""
_PROSE = re.compile(rf"\b(?:i|my|we|our|user|remember|always|never|assistant)\b|[{CJK_RANGE}]", re.IGNORECASE)
_WORD = re.compile(rf"[^\W{CJK_RANGE}][\w'’.-]*")
_SENTENCE_SIGNS = "我。！？"
_CLOSING = "\"”»'’“"
_QUOTE_WORDS, _QUOTE_CHARS, _COMMAND_WORDS = 4, 40, 8
_TITLE_CHARS, _SMALL_CHARS = 80, 4
"""Of a title all words have a capital but short ones ("of", "the", "with")."""


def cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with gaps in place of the spans, which are in order; line ends stay."""
    pieces, position = list[str](), 0
    for start, end in spans:
        pieces.append(text[position:start])
        pieces.append("\n".join(GAP * len(line) for line in text[start:end].split("\n")))
        position = end
    return "".join([*pieces, text[position:]])


def without_enclosed(text: str) -> str:
    """Without fenced texts, elements, quotations and longer code."""
    for opening, closing in _PAIRS:
        if opening in text:
            text = cut(text, _between(text, opening, closing))
    if token := _TOKEN.search(text):
        text = cut(text, [(token.start(), len(text))])
    text = cut(text, _elements(text))
    text = cut(text, [match.span() for match in _INLINE.finditer(text) if _is_text(match)])
    return cut(text, [match.span() for match in _QUOTE.finditer(text) if _is_sentence(match.group())])


def _between(text: str, opening: str, closing: str) -> Iterable[tuple[int, int]]:
    end = 0
    while (start := text.find(opening, end)) >= 0:
        found = text.find(closing, start + len(opening))
        end = found + len(closing) if found >= 0 else len(text)
        yield start, end


def _elements(text: str) -> list[tuple[int, int]]:
    """Whole elements; of a page in pieces, all from its first tag to its last."""
    tags = list(_TAG.finditer(text)) if "<" in text else []
    closed = {tag["name"].lower() for tag in tags if tag["close"]}
    spans, open_tags, start = list[tuple[int, int]](), list[str](), 0
    for tag in tags:
        name, alone = (tag["name"] or "").lower(), _stands_alone(tag)
        start = start if open_tags else tag.start()
        if not name and alone:
            spans += [] if open_tags else [tag.span()]
        elif alone or (tag["close"] and name not in open_tags):
            # If only the end of a page is there, its beginning is unknown.
            start, last = (start, tags[-1]) if alone or open_tags else (0, tags[-1])
            ends = last["close"] or (_stands_alone(last) and last["name"] not in _BEGINNING)
            end = last.end() if ends else len(text)
            return [*(span for span in spans if span[1] <= start), (start, end)]
        elif tag["close"]:
            del open_tags[open_tags.index(name) :]
            spans += [] if open_tags else [(start, tag.end())]
        elif not name or _KNOWN.fullmatch(name) or name in closed:
            open_tags.append(name)
    return [*spans, (start, len(text))] if open_tags else spans


def _stands_alone(tag: re.Match[str]) -> bool:
    """Whether it needs no end: a comment, `<br>`, `<a/>`."""
    name = tag["name"] or ""
    return not _OPENS.match(tag.group()) if not name else bool(name.lower() in _ALONE or tag["rest"].endswith("/"))


def _is_text(inline: re.Match[str]) -> bool:
    """A command or name in backticks stays, prose goes."""
    code = inline["code"]
    return code is None or len(code.split()) > _COMMAND_WORDS or bool(_PROSE.search(code))


def _is_sentence(quoted: str) -> bool:
    """A quoted word, name or title stays, a quoted sentence goes."""
    if CJK.search(quoted) and any(sign in quoted for sign in _SENTENCE_SIGNS):
        return True
    if _is_title(quoted):
        return False
    return len(_WORD.findall(quoted)) + len(CJK.findall(quoted)) // 2 >= _QUOTE_WORDS or len(quoted) > _QUOTE_CHARS


def _is_title(quoted: str) -> bool:
    """Whether it names a work, a band or a firm ("A Map of the Winter Sea"), and tells nothing of anybody."""
    words = _WORD.findall(quoted)
    capitals = [word[:1].isupper() for word in words]
    small = all(capital or len(word) <= _SMALL_CHARS for word, capital in zip(words, capitals, strict=True))
    complete = quoted[-1:] in _CLOSING and len(quoted) <= _TITLE_CHARS
    return complete and bool(words) and capitals[0] and capitals[-1] and small and not _PROSE.search(quoted)
