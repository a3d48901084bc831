"""What reads a user's message takes time in proportion to its length, whatever runs of characters are in it.

A pattern that backtracks holds its process for good, so the readers run in a process that is killed when it is late.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from semrouter_memory.codec.base import strip_block
from semrouter_memory.lexical.terms import terms
from semrouter_memory.model import Message, Role, Signals
from semrouter_memory.recall.decide import decide
from semrouter_memory.recall.evidence import wording
from semrouter_memory.recall.keywords import local_keywords
from semrouter_memory.recall.query import search_query, search_text
from semrouter_memory.recall.refusals import refuses
from semrouter_memory.recall.times import period_of
from semrouter_memory.recall.voice import in_memory_voice
from semrouter_memory.retain import rules, unfit
from semrouter_memory.retain.extract_llm import parse
from semrouter_memory.retain.redact import redact

CHARS = 16_000
MOST_CPU_SECONDS = 0.6
"""Of one reader on one text, on a machine that is busy; 16,000 blanks took 1.2 s and more while one pattern was quadratic."""
NOW = datetime(2026, 3, 20, tzinfo=UTC)

RUNS = (
    *" \t\n\r\u3000\u00a0.,;:!?-_=+*#~>|/'\"`()[]{}&@$%\\…？。，、：“”的a1A", "a ", "1 ", "- ", "\n ", "\n\t", " \n", "I ", "my ", "A ", "a.", "1-", "a@", "=a",
    "<a>", "and I ", "https://", "code ", "password ", "is ", "one ", "a:b@", "://", "\n> ", "a, ", "'s ", "密码", "-----BEGIN ", "user a pass ", "sk-", "eyJ",
)  # fmt: skip
FRAMES = ("{}", "I live in{}Rome", "my password is{}x1", "    {}", "remember:{}", "“{}", "User's{}")


def _question(text: str) -> object:
    history = (Message(Role.USER, text), Message(Role.ASSISTANT, text))
    query = search_text(text, history, max_chars=CHARS)
    return search_query(text, history, max_chars=CHARS), wording(query, text, history)


def _model_answer(text: str) -> object:
    try:
        return parse(text)
    except Exception:  # noqa: BLE001 - only the time counts
        return None


READERS: dict[str, Callable[[str], object]] = {
    "strip_block": strip_block,
    "redact": redact,
    "unfit": unfit.reason,
    "asks_to_remember": rules.asks_to_remember,
    "rules": rules.read,
    "model_answer": _model_answer,
    "decide": lambda text: decide(text, Signals()),
    "question": _question,
    "keywords": local_keywords,
    "voice": in_memory_voice,
    "terms": terms,
    "period": lambda text: period_of(text, NOW),
    "refuses": refuses,
}


def texts() -> Iterator[str]:
    for frame in FRAMES:
        for run in RUNS:
            yield frame.format(run * (CHARS // len(run)))
