"""What of a message is the user speaking for themselves.

Strategy: everything that may have been pasted, quoted, invented or handed over to be worked on is cut away before any
grammar looks at the text. Cutting too much loses a memory; cutting too little stores somebody else's words as the
user's, or obeys an instruction hidden in a pasted text. So in doubt it is cut.
"""

import re

MAX_OWN_PARAGRAPH_CHARS = 800
"""A longer paragraph is taken for pasted material: few people type that much in one go."""

MAX_READ_CHARS = 16_000
"""What stands further behind is not read."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(\w+)[^<>]{0,200}>[^<]{0,2000}</\1>", re.DOTALL)
_QUOTED_LINE = re.compile(
    r"^\s*(?:>|\||#include|import |from \w+ import|def |class |\$ |\{|\}|At line|Traceback).*$", re.MULTILINE
)
_LONG_QUOTE = re.compile(
    r"\"[^\"]*(?:\"|\Z)|“[^”]*(?:”|\Z)|«[^»]*(?:»|\Z)|「[^」]*(?:」|\Z)|『[^』]*(?:』|\Z)|(?<![\w'])'(?!\s)[^'\n]*(?:'\w[^'\n]*)*'(?!\w)"
)
_SETTING = re.compile(r"^\s*[A-Z][A-Z0-9_]{2,}=.*$|\b[A-Z][A-Z0-9_]{2,}=\S+", re.MULTILINE)
_LETTER = re.compile(
    r"^\s*(?:dear\s+\S|to whom it may concern|subject:|from:\s|to:\s|sehr geehrte|尊敬的|亲爱的|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d)",
    re.IGNORECASE | re.MULTILINE,
)

_WORKED_ON = (
    r"summari[sz]e|sum up|translat\w+|proof-?read|polish|rewrite|re-write|reword|rephrase|paraphrase|correct|edit|improve"
    r"|shorten|analy[sz]e|review|check|fix|convert|classify|extract|grade|critique|transcribe|continue|complete|fill in"
    r"|parse|interpret|respond to|reply to|tl;?dr"
)
_WORK = re.compile(
    rf"(?:^|[.!?\n]\s*|\b(?:can|could|would|will) you (?:please |pls )?|\b(?:please|pls|help me(?: to)?)\s+)"
    rf"(?:{_WORKED_ON})\b[^.?!\n]*",
    re.IGNORECASE,
)
_HANDED_OVER = re.compile(
    r"\b(?:this|these|the following|following|below|here is(?! how)|here's(?! how)|here are|attached|my code|the code|the text|the error"
    r"|the log|the prompt|says|said|wrote|sent|reads)\b[^.!?\n:]{0,60}:(?!\d|//)",
    re.IGNORECASE,
)
_WORK_CHINESE = re.compile(
    r"(?:翻译|总结|概括|润色|改写|修改|校对|扩写|缩写|续写|解释|分析|检查|纠正)(?:一下|下)?[^。！？!?\n]{0,40}(?:[:：\n]|$)|(?:以下|下面|如下)[^。！？\n]{0,20}[:：]"
)

_FICTION = re.compile(
    r"\b(?:role-?\s?play\w*|in character|pretend|act as|let's play|play the (?:role|part)|text adventure|dungeon master"
    r"|you are (?:now )?(?:an? |the )(?!bit|little)|in (?:the )?first person|from the (?:perspective|point of view|viewpoint) of)\b"
    r"|(?:扮演|角色扮演|假装|我们来玩|你现在是|第一人称)",
    re.IGNORECASE,
)
_INVENTION = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|tell(?: me)?|continue|give me|need|want|make|help)\b"
    r"[^.?!\n]{0,60}?\b(?:story|stories|poem|song|lyrics|rap|novel|scene|script|screenplay|dialogue|dialog|monologue|fairy tale|haiku"
    r"|limerick|sonnet|character|persona|fan ?fic\w*|joke|riddle|dating profile|speech|example (?:text|sentences?|conversation)"
    r"|sample (?:text|data|letter|conversation)|test data|cover letter|bio|essay)\b|(?:写|编|创作)[^。！？\n]{0,20}(?:故事|小说|诗|歌词|剧本|对话|段子|作文)",
    re.IGNORECASE,
)
_SUPPOSITION = re.compile(
    r"(?:^|[.!?\n]\s*)(?:(?:and|so|ok|okay|now|well),?\s+)?(?:suppose|supposing|imagine|let's say|lets say|say i|assume|assuming|what if"
    r"|hypothetically|in a hypothetical|consider a|given that i)\b|假设|假如|如果我是|想象",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\b(?:back to reality|out of character|stop (?:the )?(?:role-?\s?play\w*|game|playing)|end (?:of )?(?:the )?(?:role-?\s?play|game|scene)"
    r"|(?:game|scene) over|seriously now|in real life|irl|for real now|enough of (?:the|this) (?:game|role))\b|回到现实|不玩了|说正经的",
    re.IGNORECASE,
)
_QUOTE_WORDS = 4


def opens_fiction(text: str) -> bool:
    """Whether this message starts a game or role-play that later messages go on with."""
    return bool(_FICTION.search(text))


def closes_fiction(text: str) -> bool:
    return bool(_BACK.search(text))


def own_words(text: str) -> str:
    """The part of a message in which the user speaks as themselves, about what is."""
    text = _CODE.sub(" ", _lines(text[:MAX_READ_CHARS]))
    text = _MARKUP.sub(" ", text)
    text = _LONG_QUOTE.sub(_short_quote, text)
    text = _QUOTED_LINE.sub("", text)
    text = _SETTING.sub(" ", text)
    for start in (_LETTER, _WORK, _HANDED_OVER, _WORK_CHINESE, _FICTION, _INVENTION, _SUPPOSITION):
        text = _before(start, text)
    return "\n".join(paragraph for paragraph in text.split("\n") if len(paragraph) <= MAX_OWN_PARAGRAPH_CHARS)


def _lines(text: str) -> str:
    """Without empty lines and runs of blanks, on which the patterns would dwell."""
    return "\n".join(line for line in (" ".join(line.split()) for line in text.splitlines()) if line)


def _short_quote(match: re.Match[str]) -> str:
    """A quoted word or name stays, without changing what it says; a quoted sentence goes."""
    quoted = match.group()
    return quoted if len(quoted.split()) < _QUOTE_WORDS and len(quoted) <= MAX_OWN_PARAGRAPH_CHARS // 20 else " "


def _before(start: re.Pattern[str], text: str) -> str:
    found = start.search(text)
    return text[: found.start()] if found else text
