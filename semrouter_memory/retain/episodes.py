"""The episodic memory of an agent's run, where no model writes one. Pure.

Strategy. What users say is kept as quotes, so a conversation without tools makes no episode here: it could only repeat
them. A run's goal, steps, outcome and lessons stand in no quote. The memory's id follows from the session and its first
kept turn, so that making it again rewrites the same memory.
"""

from collections.abc import Sequence

from semrouter_memory.language.scripts import CJK
from semrouter_memory.model import Candidate, Claim, LoggedTurn, MemoryType, derived_id
from semrouter_memory.retain.passages import fitted
from semrouter_memory.retain.runs import Run, run_of

EXTRACTOR = "episode_runs"
MAX_CHARS = 900
"""Of a whole episode."""


def memory_id(claim: Claim, turns: Sequence[LoggedTurn]) -> str:
    """The id of the session's episode, the same as long as its first turn is kept."""
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
