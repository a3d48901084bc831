"""An agent's run, as far as it may be remembered: goal, steps, outcome, lessons. Pure.

Strategy. The goal is the user's own request, the steps are the names of tools, never their arguments or results, the
outcome is one sentence of the answer. A sentence that talks about the user, or about remembering, is left out of the
outcome: an answer repeats what a tool's result or a pasted text said, and that is no source.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semrouter_memory.codec.base import strip_block, strip_reasoning
from semrouter_memory.language.own_text import LEFT_OUT
from semrouter_memory.language.question_form import QUESTION_MARKS
from semrouter_memory.model import LoggedTurn, ToolUse
from semrouter_memory.retain import unfit
from semrouter_memory.retain.spoken import spoken

_MAX_SENTENCE_CHARS = 200
_MAX_NAME_CHARS = 64
_MAX_STEPS = 12
_MAX_LESSONS = 3
_READ_CHARS = 2_000

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?:\s|$)|(?<=[。！？])|\n")
_MARKDOWN = re.compile(r"^[\s#>*-]+|\*\*|__|`")
_ABOUT_MEMORY = re.compile(
    r"\b(?:remember\w*|memor\w+|note that|keep in mind|from now on|always|never|the user\b|user's|users?\s+(?:is|has|likes|lives|wants|prefers)"
    r"|ignore|instruction\w*|system prompt|you(?:'re| (?:are|like|love|live|have|want|prefer|work|own|need|use|bank|said|told|speak|drive))|your (?:name|favou?rite|birthday|address|password)"
    r"|your\s[^.!?]{1,40}?\s(?:is|are|was|were)|my\s[\w' -]{1,30}?\s(?:is|are|was|were)|I (?:live|work at|prefer|love|like|own))\b"
    r"|用户|记住|记得|记忆|以后|你(?:的[^，。]{1,12})?(?:是|住|喜欢|有|叫)|指令",
    re.IGNORECASE,
)
_OF_ONESELF = re.compile(r"\W*(?:I|I'm|I've|my|we|our)\b|.{0,4}我", re.IGNORECASE)
"""A line that tells and is not taken for the user's own: somebody else's, then."""
_VERDICT = re.compile(
    r"\b(?:next time|should(?:n't| not)? have|you forgot|that(?:'s| is| was) (?:wrong|not what|exactly|right|perfect|better)|(?:did not|didn't|doesn't|does not) work"
    r"|(?:it |that |this )?work(?:s|ed) (?:now|well|perfectly|fine)|too (?:long|short|slow|verbose)|wrong|mistake)\b"
    r"|下次|不对|错了|太(?:长|短|慢|啰嗦)|正是|没有用|成功了",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"\b(?:error|errors|failed|failure|exception|traceback|timed out|timeout|denied|forbidden|unauthorized|not found|refused)\b|失败|错误|超时|拒绝",
    re.IGNORECASE,
)
_SUCCESS = re.compile(
    r"\b(?:no|0|zero|without) (?:error|errors|failure|failures)\b|\b(?:errors?|failed|failures)\W{1,3}(?:0|null|none|false|\[\])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What an agent did in a session.

    Attributes:
        goal: the user's request; "" when it is not in words of their own.
        steps: the tools in the order of their first use in a row.
        outcome: the first sentence of the last answer; "" when there is none that may be stored.
        lessons: what the user said about the result, and which tools failed.
    """

    goal: str
    steps: tuple[str, ...]
    outcome: str
    lessons: tuple[str, ...]


def run_of(turns: Sequence[LoggedTurn]) -> Run | None:
    """The session's run, None when no tool was used."""
    places = [place for place, turn in enumerate(turns) if turn.tools]
    if not places:
        return None
    tools = [tool for turn in turns for tool in turn.tools]
    return Run(
        goal=_goal(turns[: places[0] + 1]),
        steps=_steps(tools),
        outcome=_outcome(turns[places[-1]].assistant_text),
        lessons=(*_verdicts(turns[places[0] + 1 :]), *_failures(tools))[:_MAX_LESSONS],
    )


def _goal(turns: Sequence[LoggedTurn]) -> str:
    """The user's first request, at the latest the one that the first tool was used for.

    A request that hands something over ("Summarise this: ...") is none of what they say as themselves; then its first
    sentence, up to the colon, is the user's.
    """
    for turn, own in zip(turns, spoken(turns), strict=True):
        text = strip_block(turn.user_text)[:_READ_CHARS]
        line = next((line for line in text.split("\n") if line.strip()), "")
        line = "" if _OF_ONESELF.match(line) else line
        for source in (own.partition(LEFT_OUT)[0].rstrip(" :："), line.partition(":")[0].partition("：")[0]):
            if goal := _kept(source):
                return goal
    return ""


def _steps(tools: Sequence[ToolUse]) -> tuple[str, ...]:
    names = [" ".join(tool.name.split())[:_MAX_NAME_CHARS] for tool in tools if tool.name.strip()]
    return tuple(dict.fromkeys(name for name in names if not unfit.reason(name)))[:_MAX_STEPS]


def _outcome(answer: str) -> str:
    return _kept(_FENCED.sub(" ", strip_reasoning(strip_block(answer))[:_READ_CHARS]))


def _kept(text: str) -> str:
    """The first sentence, when it is short enough and may be stored, else ""."""
    sentence = next(_sentences(text), "")
    return sentence if _fits(sentence) and not _ABOUT_MEMORY.search(sentence) else ""


def _sentences(text: str) -> Iterator[str]:
    for part in _SENTENCE_END.split(text):
        sentence = " ".join(_MARKDOWN.sub("", part).split())
        if any(char.isalpha() for char in sentence):
            yield sentence


def _verdicts(turns: Sequence[LoggedTurn]) -> Iterator[str]:
    """What the user said about the result: the sentences of their own that judge it."""
    for own in spoken(turns):
        yield from (f'"{sentence}"' for sentence in _sentences(own) if _judges(sentence))


def _judges(sentence: str) -> bool:
    return _fits(sentence) and bool(_VERDICT.search(sentence)) and not sentence.endswith(QUESTION_MARKS)


def _fits(sentence: str) -> bool:
    return len(sentence) <= _MAX_SENTENCE_CHARS and not unfit.reason(sentence)


def _failures(tools: Sequence[ToolUse]) -> Iterator[str]:
    """Names of the tools that failed, never what they said."""
    last = {tool.name: tool for tool in tools}
    for name in dict.fromkeys(tool.name for tool in tools if _failed(tool)):
        plain = " ".join(name.split())[:_MAX_NAME_CHARS]
        yield f"{plain} failed" if _failed(last[name]) else f"{plain} failed at first"


def _failed(tool: ToolUse) -> bool:
    return bool(_FAILURE.search(tool.outcome)) and not _SUCCESS.search(tool.outcome)
