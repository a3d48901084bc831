"""What a session's episodic memory says when no model writes it. Pure.

Strategy. It is made of what was *extracted* from the session's turns, and of an agent's run, never of raw pasted text or
of the assistant's knowledge; a session that gave neither makes none. Its id follows from the session and its first kept
turn, so that making it again rewrites the same memory.
"""

import hashlib
import re
from collections.abc import Container, Sequence

from semrouter_memory.model import Candidate, Claim, LoggedTurn, MemoryType
from semrouter_memory.retain import unfit
from semrouter_memory.retain.passages import Fits
from semrouter_memory.retain.rules.chinese import is_chinese
from semrouter_memory.retain.runs import Run, run_of

EXTRACTOR = "episode_rules"
MAX_CHARS = 900
"""Of a whole episode."""
_MAX_STATEMENTS = 10
_MAX_STATEMENT_CHARS = 240
_PAIR = 2

_USERS = re.compile(r"^User's\b|\bthe user's\b")
_USER = re.compile(r"^User\b")
_USER_CHINESE = re.compile(r"^用户(?!的)")
_WORD = re.compile(r"[^\W\d_]+")
_ARTICLES = frozenset({"The", "A", "An", "There", "It", "This", "That", "In", "On"})
_HOW_TO = re.compile(r"^To (?P<goal>[^:：]{2,160})[:：]")


def memory_id(claim: Claim, turns: Sequence[LoggedTurn]) -> str:
    """The id of the session's episode, the same as long as its first turn is kept."""
    named = f"{claim.scope.owner}\0{claim.session_id}\0{turns[0].id}"
    return f"mem_{hashlib.sha256(named.encode('utf-8', 'replace')).hexdigest()[:28]}"


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


def episode(turns: Sequence[LoggedTurn], statements: Sequence[Candidate], fits: Fits) -> str:
    """What happened in the session, "" when there is nothing to tell.

    Args:
        statements: what was extracted from the turns and still held at the end, oldest first.
        fits: statements are left out until it does, as long as there are several.
    """
    run = run_of(turns, statements)
    said = [each.content for each in statements if each.type is not MemoryType.REFLECTIVE or run is None]
    kept = [content for content in said if len(content) <= _MAX_STATEMENT_CHARS and not unfit.reason(content)]
    if not kept and run is None:
        return ""
    texts = kept or [turn.user_text for turn in turns]
    write = _chinese if sum(map(is_chinese, texts)) * 2 > len(texts) else _english
    return write(turns, run, kept[-_MAX_STATEMENTS:], lambda text: len(text) <= MAX_CHARS and fits(text))


def when(turns: Sequence[LoggedTurn]) -> tuple[str, str]:
    """The days on which the session began and ended."""
    return f"{turns[0].observed_at:%Y-%m-%d}", f"{turns[-1].observed_at:%Y-%m-%d}"


# -- English -----------------------------------------------------------------------------------------------------------


def _english(turns: Sequence[LoggedTurn], run: Run | None, contents: Sequence[str], fits: Fits) -> str:
    first, last = when(turns)
    date = f"On {first}" if first == last else f"From {first} to {last}"
    if run is None:
        return _joined(f"{date} the user", _said(contents, _small_words(turns)), fits)
    goal = f'asked: "{run.goal}"' if run.goal else "let the assistant use tools"
    told = f"{date} the user {_ended(goal)} Steps: {', '.join(run.steps)}."
    if run.outcome:
        told += f" Outcome: {_ended(run.outcome)}"
    if run.lessons:
        told += f" Lesson: {_ended('; '.join(run.lessons))}"
    return _joined(f"{told} The user also", _said(contents, _small_words(turns)), fits) if contents else told


def _said(contents: Sequence[str], small: Container[str]) -> list[str]:
    """What the user did, as clauses that follow upon "the user".

    Args:
        small: words that the user writes without a capital, so that they are no names.
    """
    how_tos = [found.group("goal") for content in contents if (found := _HOW_TO.match(content))]
    facts = [content for content in contents if not _HOW_TO.match(content)]
    clauses = [
        f"that {_lowered(_USER.sub('the user', _USERS.sub('their', content)), small).rstrip('.')}" for content in facts
    ]
    if clauses:
        clauses[0] = f"said {clauses[0]}"
    return clauses + [f"explained how to {goal}" for goal in how_tos]


def _joined(start: str, clauses: Sequence[str], fits: Fits) -> str:
    """The start and as many clauses as fit, the last ones first to stay."""
    kept = list(clauses)
    while len(kept) > 1 and not fits(_sentence(start, kept)):
        kept.pop(1)
    return _sentence(start, kept)


def _sentence(start: str, clauses: Sequence[str]) -> str:
    if len(clauses) == _PAIR:
        return f"{start} {clauses[0]} and {clauses[1]}."
    *others, last = clauses
    return f"{start} {'; '.join([*others, f'and {last}' if others else last])}."


def _small_words(turns: Sequence[LoggedTurn]) -> frozenset[str]:
    return frozenset(word for turn in turns for word in _WORD.findall(turn.user_text) if word.islower())


def _lowered(content: str, small: Container[str]) -> str:
    """A sentence's beginning, inside another sentence: common words lose their capital, names keep it."""
    first, _, rest = content.partition(" ")
    common = first in _ARTICLES or first.lower() in small
    return f"{first.lower()} {rest}" if common else content


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", '."', '!"', '?"')) else f"{sentence}."


# -- Chinese -----------------------------------------------------------------------------------------------------------


def _chinese(turns: Sequence[LoggedTurn], run: Run | None, contents: Sequence[str], fits: Fits) -> str:
    kept = [_USER_CHINESE.sub("", content).rstrip("。") for content in contents]
    while len(kept) > 1 and not fits(_chinese_text(turns, run, kept)):
        kept.pop(0)
    return _chinese_text(turns, run, kept)


def _chinese_text(turns: Sequence[LoggedTurn], run: Run | None, contents: Sequence[str]) -> str:
    first, last = when(turns)
    date = first if first == last else f"{first}至{last}"
    facts = "；".join(contents)
    if run is None:
        return f"{date}，用户提到：{facts}。"
    told = f"{date}，用户要求：“{run.goal}”。" if run.goal else f"{date}，用户让助手使用了工具。"
    told += f"步骤：{'、'.join(run.steps)}。"
    if run.outcome:
        told += f"结果：{run.outcome.rstrip('。')}。"
    if run.lessons:
        told += f"教训：{'；'.join(run.lessons)}。"
    return f"{told}用户还提到：{facts}。" if facts else told
