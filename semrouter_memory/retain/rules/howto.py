"""How-tos the user gives, and standing instructions to the assistant."""

import re

from semrouter_memory.retain.rules import feedback
from semrouter_memory.retain.rules.voice import conjugate, expand, third_person

_STEPS = r"(?P<steps>\S.{7,})"
_MIN_STEP_WORDS = 3
_GOAL = r"(?P<goal>[a-z]+\s[^:,.?!\n]{2,80}?)"
_NOT_A_GOAL = r"(?!be\b|do\b|sum|clarify|recap|answer|summari|make (?:it|sure)|give you|start with|put it|me\b|my\b|you\b|whom\b|illustrate|repeat|begin\b)"

_DOING = (
    r"deploy|release|ship|publish|build|back\s?up|restore|restart|start|update|upgrade|install|test|clean|reset|roll back"
    r"|migrate|prepare|make|cook|bake|brew|water|run|submit|file|onboard|rotate|renew|set up"
)
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"^to\s+{_NOT_A_GOAL}{_GOAL}\s*:\s*{_STEPS}$",
        rf"^to\s+{_NOT_A_GOAL}{_GOAL},?\s+(?:I|we|you)\s+(?:always\s+|usually\s+)?(?:do|follow|use)\s+(?:this|these steps|it like this|the following|as follows)\b[^:]{{0,60}}:\s*{_STEPS}$",
        rf"^to\s+{_NOT_A_GOAL}{_GOAL},?\s+(?:I|we|you)\s+(?:first\s+|always\s+|usually\s+|have to\s+|need to\s+|must\s+)?{_STEPS}$",
        rf"\bhow\s+(?:I|we)\s+{_GOAL}(?:\s+so\s+(?:that\s+)?[^:]*)?\s*:\s*{_STEPS}$",
        rf"^(?:when|whenever|every time)\s+(?:I|we)\s+(?P<goal>(?:{_DOING})\s[^:,.?!\n]{{2,80}}?),\s+(?:I|we)\s+(?:first\s+|always\s+|usually\s+)*{_STEPS}$",
        rf"^(?:the way|the steps?)\s+(?:I|we|to)\s+{_GOAL}\s+(?:is|are)\s*:?\s*(?:by\s+|to\s+|that we\s+)?{_STEPS}$",
        rf"^(?:I|we)\s+(?:always\s+|usually\s+)?(?P<goal>(?:{_DOING})\s[^,.:?!\n]{{2,60}}?)\s+by\s+(?:first\s+)?{_STEPS}$",
    )
)
_PROCESS = re.compile(
    rf"^(?:my|our|the)\s+(?P<what>[\w\s-]{{2,50}}?\s(?:process|procedure|workflow|routine|steps|recipe|checklist|runbook))\s*(?:is|are)?\s*:\s*{_STEPS}$",
    re.IGNORECASE,
)
_EACH_TIME = re.compile(
    rf"^(?:I|we)\s+(?:always\s+|usually\s+)?(?:do|handle)\s+(?:this|that|it|the following)\s+(?P<what>[^:?]{{4,80}}?)\s*:\s*{_STEPS}$",
    re.IGNORECASE,
)
_PROCEDURE_CHINESE = re.compile(
    r"^(?P<goal>(?:部署|发布|重启|安装|备份|更新|升级|恢复|启动|配置|清理|提交|上线|制作|做)[^，,：:。？?]{1,30}?)(?:的)?(?:步骤|流程|方法|做法)?(?:是|如下)?\s*[：:，,]\s*(?P<steps>(?:先|首先|第一步|运行|执行|1).{4,})$"
)

_STANDING = re.compile(
    r"^(?:please\s+|pls\s+)?(?:from now on|going forward|in (?:the )?future|from here on|henceforth|for (?:all )?future (?:answers|replies|responses)"
    r"|by default|whenever you (?:answer|reply|respond|write)[^,]*)\s*[,:]?\s*(?P<wish>\S.+)$",
    re.IGNORECASE,
)
_WHEN_YOU = re.compile(
    r"(?:whenever|when|every time|each time|any time) you\s(?P<act>answer|reply|respond|write|explain|generate|give|show|suggest|recommend|summari[sz]e|translate|send|produce|create|draft|review|format|cite|quote|talk|speak|address|greet|plan|cook|correct|list|mention|describe|compare)\b"
    r"(?P<what>(?:\s(?!(?:the|this|that|these|those|it|them)\b)[^\s,.:;?!]+){0,8}?)"
)
"""A thing the assistant does now and then; "when you write the letter" is about the one at hand."""
_ORDER = (
    r"(?P<wish>(?:(?:please|pls|always|never|do not|don't|only|just|also)\s)*(?:answer|reply|respond|use|write|give|call|format|speak|keep|address|explain|show|tell|send|avoid|add|include|start|end|put|skip|make|prefer|stick|follow"
    r"|mention|list|cite|ask|say|be|leave|wrap|name|indent|convert|round|limit|assume|remember|check|sign|sort|begin|stop|go|talk|suggest)\b[^?]{2,}?)"
)
_WHEN_FIRST = re.compile(rf"^(?:please\s)?{_WHEN_YOU.pattern}\s*[,\s]\s*{_ORDER}[\s.!]*$", re.IGNORECASE)
_WHEN_BEHIND = re.compile(rf"^{_ORDER},?\s{_WHEN_YOU.pattern}[\s.!]*$", re.IGNORECASE)
_ALWAYS = re.compile(
    r"^(?:(?:can|could|would|will) you\s+)?(?:please\s+|pls\s+)?(?P<wish>(?:always|never|don't ever|do not ever)\s+(?:please\s+)?(?:answer|reply|respond|use|write|give|call|address|include|add"
    r"|show|explain|format|speak|talk|keep|put|start|end|send|suggest|recommend|ask|address|using|giving|calling|adding|writing)\b.+)$",
    re.IGNORECASE,
)
_STANDING_TAIL = re.compile(
    r"^(?:too [a-z]+,\s+)?(?:(?:please|pls|just|simply|only)\s+|(?:can|could|would|will) you\s+)*(?P<wish>(?:answer|reply|respond|use|write|give|call|format|speak|keep|address|say|explain|show|tell|include|add|start|skip|make)\b.{3,}?),?\s+(?:from now on|going forward|in (?:the )?future|next time|in everything\b.*|in all (?:your )?\w+|(?:every|each) time)\W*$",
    re.IGNORECASE,
)
_POLITE = re.compile(r"^(?:can|could|would|will) you\s+(?:please\s+)?(?:always|never)\b", re.IGNORECASE)
_NO_WISH = re.compile(
    r"^(?:I|we|you|it|this|that|there|what|how|can|could|will|would)\b(?!\s+(?:want you to|would like you to))",
    re.IGNORECASE,
)


_ORDERS = re.compile(
    r"^(?:(?:please|just|simply|only|always|never|do not)\s+)*(?:answer|reply|respond|use|write|give|call|format|speak|keep|address|explain|show|tell|send|avoid)\b",
    re.IGNORECASE,
)
_GIVE = re.compile(r"^(?:give|show|send) (?:me|us)\b", re.IGNORECASE)
_IMPERATIVE = re.compile(
    r"^(?:please |always |never |only |do not |don't |just |kindly |also )*(?:no |[a-z]+ (?:me|us|my|our|your|the|an?|all|it|in|as|with|to|at|for|from|by|of|only|more|less|every\w*|things|code|short\w*|answers?)\b"
    r"|(?:answer|reply|respond|use|write|give|call|format|speak|keep|address|avoid|include|add|show|explain|be|stop|remember|assume|treat|prefer|suggest|recommend|ask|send|skip|put|start|end|talk|check|make|tell|help|say|cite|quote|round|convert|translate|do|don't)\b)",
    re.IGNORECASE,
)


def procedure(sentence: str) -> str:
    """The how-to in a sentence as "To <goal>: <steps>", "" when it tells none."""
    sentence = expand(sentence).strip(" .!")
    if process := _PROCESS.match(sentence):
        return f"User's {process.group('what')}: {_steps(process)}"
    if each_time := _EACH_TIME.match(sentence):
        return f"What the user does {third_person(each_time.group('what'))}: {_steps(each_time)}"
    if chinese := _PROCEDURE_CHINESE.match(sentence):
        return f"{chinese.group('goal')}：{chinese.group('steps').strip(' 。.')}"
    for pattern in _PATTERNS:
        if (
            (found := pattern.search(sentence))
            and "?" not in sentence
            and len(_steps(found).split()) >= _MIN_STEP_WORDS
        ):
            goal = re.sub(r"^(?:the\s+)", "", found.group("goal"), flags=re.IGNORECASE)
            return f"To {_imperative(goal)}: {_steps(found)}"
    return ""


def standing_instruction(sentence: str) -> str:
    """What shall hold from now on, as "User wants the assistant to ...", else ""."""
    if each_time := _each_time(sentence):
        return each_time
    found = _STANDING.match(sentence) or _ALWAYS.match(sentence) or _STANDING_TAIL.match(sentence)
    if not found or (sentence.endswith("?") and not _POLITE.match(sentence)):
        return ""
    wish = expand(found.group("wish")).strip(" .!,?")
    wish = re.sub(
        r"^(?:please|pls|I (?:want|would like|need) you to|you (?:should|must|can))\s+", "", wish, flags=re.IGNORECASE
    )
    wish = re.sub(r",?\s+(?:please|pls|thanks|thx|thank you)\b", "", wish, flags=re.IGNORECASE)
    wish = re.sub(r"^(?:just|simply|kindly)\s+", "", wish, flags=re.IGNORECASE)
    if _NO_WISH.match(wish):
        return ""
    if _GIVE.match(wish) and (form := feedback.preference(wish)):
        return form
    if not _IMPERATIVE.match(wish):
        return f"User wants from now on: {third_person(wish)}"
    return f"User wants the assistant {_to(wish)}"


def _each_time(sentence: str) -> str:
    """As in "when you write code for me, use 2-space indentation"."""
    found = _WHEN_FIRST.match(expand(sentence)) or _WHEN_BEHIND.match(expand(sentence))
    if not found:
        return ""
    wish = re.sub(r"^(?:(?:please|pls|just)\s)+", "", found.group("wish").strip(" .!,"), flags=re.IGNORECASE)
    act = f"{conjugate(found.group('act').lower())}{found.group('what')}".strip()
    return f"User wants the assistant {_to(wish)} when it {third_person(f'it {act}')[3:]}"


def orders(sentence: str) -> bool:
    """Whether it tells the assistant what to do: "just give me bullet points"."""
    return bool(_ORDERS.match(sentence))


def _to(wish: str) -> str:
    negated = re.match(r"^(?:do not ever|don't ever|do not|never|no)\s+(?P<rest>.+)$", wish, re.IGNORECASE)
    if negated:
        return f"never to {_of_the_user(negated.group('rest'))}"
    return f"to {_of_the_user(wish[:1].lower() + wish[1:])}"


def _of_the_user(text: str) -> str:
    return third_person(text)


def _imperative(goal: str) -> str:
    """A goal without its article, so that one goal has one name."""
    return re.sub(r"^(\S+)\s+(?:the|our|my)\s+", r"\1 ", goal.strip())


def _steps(match: re.Match[str]) -> str:
    return re.sub(r"\b(?:I|we)\s+(?=\w)", "", match.group("steps")).strip(" .!")
