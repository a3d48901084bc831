"""The episodic memory of an agent's run, where no model writes one. Pure.

Strategy. What users say is stored as quotes, so a conversation without tools makes no episode here: it could only repeat
them. A run's goal, steps, outcome and lessons stand in no quote. The goal is the user's own request, the steps are the
names of tools, never their arguments or results, the outcome is one sentence of the answer. A sentence that talks about the
user, or about remembering, is left out of the outcome: an answer repeats what a tool's result or a pasted text said, and
that is no source. The memory's id follows from the session and its first stored turn, so that making it again rewrites the
same memory.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semrouter_memory.codec.base import strip_block, strip_reasoning
from semrouter_memory.language.own_text import LEFT_OUT
from semrouter_memory.language.question_form import QUESTION_MARKS
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.sentences import sentences
from semrouter_memory.model import Candidate, Claim, LoggedTurn, MemoryType, ToolUse, derived_id
from semrouter_memory.retain import content_policy
from semrouter_memory.retain.directives import spoken
from semrouter_memory.retain.passages import fitted

EXTRACTOR = "episode_runs"
MAX_CHARS = 900
"""Of a whole episode."""

_MAX_SENTENCE_CHARS = 200
_MAX_NAME_CHARS = 64
_MAX_STEPS = 12
_MAX_LESSONS = 3
_READ_CHARS = 2_000

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
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


def memory_id(claim: Claim, turns: Sequence[LoggedTurn]) -> str:
    """The id of the session's episode, the same as long as its first turn is stored."""
    return derived_id(claim.scope.owner, claim.session_id, turns[0].id)


def as_candidate(content: str, turns: Sequence[LoggedTurn], *, extractor: str, model: str = "") -> Candidate:
    """The episode as it is written: observed with the session's last turn, made of all of them."""
    last = turns[-1]
    return Candidate(
        type=MemoryType.EPISODIC,
        content=content,
        observed_at=last.observed_at,
        extractor=extractor,
        session_id=last.session_id,
        turn_ids=tuple(turn.id for turn in turns),
        model=last.model,
        extraction_model=model,
    )


def episode(turns: Sequence[LoggedTurn]) -> str:
    """What an agent did in the session, "" when no tool was used."""
    run = run_of(turns)
    if run is None:
        return ""
    texts = [turn.user_text for turn in turns]
    chinese = sum(bool(CJK.search(text)) for text in texts) * 2 > len(texts)
    told = _chinese(turns, run) if chinese else _english(turns, run)
    return fitted(told, lambda text: len(text) <= MAX_CHARS)


def when(turns: Sequence[LoggedTurn]) -> tuple[str, str]:
    """The days on which the session began and ended."""
    return f"{turns[0].observed_at:%Y-%m-%d}", f"{turns[-1].observed_at:%Y-%m-%d}"


def _english(turns: Sequence[LoggedTurn], run: Run) -> str:
    first, last = when(turns)
    date = f"On {first}" if first == last else f"From {first} to {last}"
    goal = f'asked: "{run.goal}"' if run.goal else "let the assistant use tools"
    told = f"{date} the user {_ended(goal)} Steps: {', '.join(run.steps)}."
    if run.outcome:
        told += f" Outcome: {_ended(run.outcome)}"
    if run.lessons:
        told += f" Lesson: {_ended('; '.join(run.lessons))}"
    return told


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", '."', '!"', '?"')) else f"{sentence}."


def _chinese(turns: Sequence[LoggedTurn], run: Run) -> str:
    first, last = when(turns)
    date = first if first == last else f"{first}至{last}"
    told = f"{date}，用户要求：“{run.goal}”。" if run.goal else f"{date}，用户让助手使用了工具。"
    told += f"步骤：{'、'.join(run.steps)}。"
    if run.outcome:
        told += f"结果：{run.outcome.rstrip('。')}。"
    if run.lessons:
        told += f"教训：{'；'.join(run.lessons)}。"
    return told


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
            if goal := _storable(source):
                return goal
    return ""


def _steps(tools: Sequence[ToolUse]) -> tuple[str, ...]:
    names = [" ".join(tool.name.split())[:_MAX_NAME_CHARS] for tool in tools if tool.name.strip()]
    return tuple(dict.fromkeys(name for name in names if not content_policy.reason(name)))[:_MAX_STEPS]


def _outcome(answer: str) -> str:
    return _storable(_FENCED.sub(" ", strip_reasoning(strip_block(answer))[:_READ_CHARS]))


def _storable(text: str) -> str:
    """The first sentence, when it is short enough and may be stored, else ""."""
    sentence = next(_sentences(text), "")
    return sentence if _fits(sentence) and not _ABOUT_MEMORY.search(sentence) else ""


def _sentences(text: str) -> Iterator[str]:
    for part in sentences(text):
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
    return len(sentence) <= _MAX_SENTENCE_CHARS and not content_policy.reason(sentence)


def _failures(tools: Sequence[ToolUse]) -> Iterator[str]:
    """Names of the tools that failed, never what they said."""
    last = {tool.name: tool for tool in tools}
    for name in dict.fromkeys(tool.name for tool in tools if _failed(tool)):
        plain = " ".join(name.split())[:_MAX_NAME_CHARS]
        yield f"{plain} failed" if _failed(last[name]) else f"{plain} failed at first"


def _failed(tool: ToolUse) -> bool:
    return bool(_FAILURE.search(tool.outcome)) and not _SUCCESS.search(tool.outcome)
