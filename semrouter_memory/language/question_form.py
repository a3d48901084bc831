"""Whether a sentence asks or orders, by its form. Pure."""

import re
from functools import cache

from semrouter_memory.language import word_lists

QUESTION_MARKS = ("?", "？")
_ASKS = re.compile(r"[?？]\W*$")
_WORD = re.compile(r"[\w'’]+")


def asks(sentence: str) -> bool:
    """Whether it has the form of a question, with its mark or without."""
    found = [word.lower().replace("’", "'") for word in _WORD.findall(sentence)[:4]]
    found = [word for word in found if word not in _list("politeness")]
    if _ASKS.search(sentence) or any(each in sentence for each in _list("question_words_zh")):
        return True
    # "When I was six ..." and "What I want is ..." tell.
    return bool(found) and found[0] in _list("question_words") and found[1:2] not in (["i"], ["we"], ["my"])


def orders(sentence: str) -> bool:
    """Whether it begins as an order does: "could you find ...", "list ...", "make it ...", "请帮我写 ..."."""
    return bool(_order().match(sentence.replace("’", "'")))


@cache
def _list(name: str) -> frozenset[str]:
    return frozenset(word_lists.entries(name))


@cache
def _order() -> re.Pattern[str]:
    return word_lists.pattern(
        r"^\W*(?:{politeness}\W+)*{commands}(?![\w'])(?!\W*(?:is|are|was|were)\b)|^\W*(?:那|请|麻烦|再|可以)*(?:帮|给我|写|翻译|解释|列|改|推荐|生成|告诉我|总结|继续|扮演)"
    )
