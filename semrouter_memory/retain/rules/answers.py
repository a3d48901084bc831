"""Short answers to what the assistant asked: "around 900" after "What is your budget?".

Strategy: of the assistant's question only its kind is used, out of a fixed list; not a word of it enters a memory. The
answer itself and the topic are the user's own words.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.voice import expand, third_person

MAX_ANSWER_WORDS = 14

_KINDS = tuple(
    (re.compile(pattern, re.IGNORECASE), phrase)
    for pattern, phrase in (
        (r"\b(?:budget|spend|price range|afford|how much (?:would|do|can) you)\b|预算|价位|多少钱", "budget"),
        (r"\bhow (?:many (?:days|nights|weeks)|long)\b|\bduration\b", "time"),
        (r"\bhow many (?:people|guests|of you|persons|travell?ers)\b|\bwho(?:'s| is| are|'ll| will)\b.{0,30}\b(?:coming|travell?ing|joining)\b|\bgroup size\b", "party"),
        (r"\b(?:from (?:which|what|where)|(?:where|which (?:city|airport|station)).{0,40}\bfrom\b|depart\w*|leaving from)\b", "starting point"),
        (r"\b(?:when|what dates?|which (?:month|dates?|week|day)|what time of (?:the )?year)\b", "date"),
        (r"\b(?:where|which (?:city|country|region|area|place)|destination|location)\b", "place"),
        (r"\b(?:what(?:'s| is) your name|call you)\b", "name"),
        (r"\b(?:how old|your age)\b", "age"),
        (r"\b(?:allerg\w+|dietary|diet)\b", "dietary needs"),
        (r"\b(?:experience|level|beginner)\b", "level"),
        (r"\b(?:colou?r)\b", "colour"),
        (r"\b(?:size|how (?:big|large|tall))\b", "size"),
        (r"\b(?:what.{0,30}\b(?:build|goal|purpose|achieve|use (?:it|them|this) for|for)|used? for|goal|purpose|aim)\b", "purpose"),
        (r"\b(?:operating system|os|framework|which version|what version|language|database|editor|shell|cloud|distribution|distro|stack|hardware)\b", "setup"),
        (r"\b(?:does she|is she)\b.{0,20}\b(?:like|enjoy|love|into|interested)\b", "she"),
        (r"\b(?:does he|is he)\b.{0,20}\b(?:like|enjoy|love|into|interested)\b", "he"),
        (r"\bwhat\b.{0,40}\bdo you (?:usually |normally )?(?:like|enjoy|love)\b|\b(?:hobbies|your interests|interests you|are you into)\b", "likes"),
        (r"\b(?:prefer|would you like|which (?:one|of)|do you want|interested in|for the|or)\b", "choice"),
    )
)  # fmt: skip
_NO_ANSWER = re.compile(
    r"^(?:yes|yeah|yep|no|nope|nah|ok(?:ay)?|sure|pl(?:ea)?[sz]e?|thanks?|thx|maybe|not (?:sure|really|yet)|dunno|idk|i don't know|both|either|neither|none|any|all"
    r"|perfect|great|good|nice|fine|cool|right|correct|exactly|never mind|nvm|go ahead|continue|next|stop|bye|hi|hello|lol|haha\w*|wow|hm+)\b\W*(?:please|pls|plz|thanks?|thx|then|do|it is)?\W*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|couple|few|dozen|hundred|thousand|just me|alone)\b",
    re.IGNORECASE,
)
_OWN_CLAUSE = re.compile(
    r"^(?=(?:I|we|he|she|they|it|there)\s+[a-z])|\s*(?:[,;:!.–—]|\s-+\s|\b(?:and|but|so|because|since|as)\b)\s*(?=(?:I|we)\s+[a-z])",
    re.IGNORECASE,
)
"""Where a clause begins that says something by itself, whatever was asked."""
_REFUSED = re.compile(
    r"^\W*(?:no|nope|nah|never|not)\b(?!\s+(?:more|less|later|earlier|over|under|before|after)\b)", re.IGNORECASE
)
_LIKED = {"likes", "she", "he"}
_NO_LIST = re.compile(
    r"\b(?:I|we|you|it|he|she|they|me|my|no|not|yes|wait|never|nothing|hates?|loves?|likes?|dislikes?|is|are|was|has|have|does|do|don't|cannot|can|will|sorry|mean|that|this|these|those|depends|good|great|nice|lol|haha)\b|\.\.|…|['’]s\b",
    re.IGNORECASE,
)
"""Words that a plain list of things liked is made without."""
_NUMERIC = {"budget", "time", "party", "age", "size"}
_ASKS_BACK = re.compile(
    r"\?|？|^(?:what|how|why|which|can|could|do|does|is|are|tell|show|give|explain|make|write|add|list|help|use|try|fix|change|translate|draft|and if)\b",
    re.IGNORECASE,
)
_ALONE = {
    "name": "User's name is {answer}",
    "setup": "User uses {answer}",
    "starting point": "User's starting point is {answer}",
}


def question_of(assistant_text: str) -> str:
    """The kind of thing that an answer asks the user at its end; "" when it asks nothing that is known here."""
    last = re.split(r"(?<=[.!?。！？])\s*", assistant_text.strip()[-400:])
    asked = [sentence for sentence in last if sentence.endswith(("?", "？"))]
    if not asked or not assistant_text.rstrip().endswith(("?", "？")):
        return ""
    return next((kind for pattern, kind in _KINDS if pattern.search(asked[-1])), "")


def still_asked(kind: str) -> str:
    """What of a question is open behind the first sentence of the answer: what is liked is told in one."""
    return "" if kind in _LIKED else kind


def answered(sentence: str, kind: str, topic: str, people: Mapping[str, str]) -> str:
    """A memory made of a short answer, "" when the sentence is none.

    Args:
        sentence: the user's, as it stands.
        kind: of what was asked.
        topic: of the thread, "" when it has none.
        people: whom "she" and "he" stand for.
    """
    answer = lex.LEAD.sub("", sentence).strip(" .!,;")
    answer = expand(lex.TAIL.sub("", answer))
    answer = _OWN_CLAUSE.split(answer, maxsplit=1)[0].strip(" .!,;")
    words = answer.split()
    if kind == "choice" and _REFUSED.match(sentence):
        return ""
    if not words or len(words) > MAX_ANSWER_WORDS or _NO_ANSWER.match(answer) or _ASKS_BACK.search(answer):
        return ""
    if kind in _LIKED:
        who = people.get(kind, "") if kind != "likes" else "User"
        return f"{who} likes {answer}" if who and not _NO_LIST.search(answer) else ""
    if kind in _NUMERIC and not _NUMBER.search(answer):
        return ""
    if kind not in _ALONE and not topic:
        return f"User's {kind} is {_inside(answer)}" if kind in {"budget", "date"} else ""
    if lex.LAUGHTER.search(sentence):
        return ""
    if kind in _ALONE:
        return _ALONE[kind].format(answer=_inside(answer))
    return f"User's {kind} for {topic} is {_inside(answer)}"


def _inside(answer: str) -> str:
    """In the third person, not at a sentence's beginning."""
    turned = third_person(answer)
    return f"the u{turned[1:]}" if turned.startswith("User") else turned
