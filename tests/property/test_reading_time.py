"""What reads a user's message takes time in proportion to its length, whatever runs of characters are in it.

A pattern that backtracks holds its process for good, so the readers run in a process that is killed when it is late.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from semrouter_memory.codec.base import strip_block
from semrouter_memory.language.terms import terms
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.language.values import values
from semrouter_memory.model import LoggedTurn, Message, Role, Scope, Signals
from semrouter_memory.recall.features import QueryFeatures
from semrouter_memory.recall.keywords import local_keywords
from semrouter_memory.recall.query import Query, decide
from semrouter_memory.recall.rewrite import refuses
from semrouter_memory.recall.time_expressions import period_of
from semrouter_memory.retain import content_policy, quotes
from semrouter_memory.retain.directives import asks_to_remember, spoken
from semrouter_memory.retain.extract_llm import parse
from semrouter_memory.retain.reconciling.statement import statement

CHARS = 16_000
MOST_CPU_SECONDS = 0.6
"""Of one reader on one text, on a machine that is busy; 16,000 blanks took 1.2 s and more while one pattern was quadratic."""
MOST_SECONDS = 120
"""Of all together; a pattern that does not end is killed then."""
NOW = datetime(2026, 3, 20, tzinfo=UTC)

RUNS = (
    " ", "\t", "\n", "\r", "\u3000", "\u00a0", *".,:;!?-_=+*#~>|/'\"`([{@$%…？。，：“的aA1",
    "a ", "1 ", "\n ", "\n\t", "I ", "my ", "a.", "1-", "a@", "=a", "<a>", "<b", "and I ", "https://", "code ", "password ", "is ", "one ", "a:b@",
    "\n> ", "'s ", "密码", "-----BEGIN ", "user a pass ", "sk-", "eyJ",
    "(1", "2026-02-10", "三", "万",
)  # fmt: skip
FRAMES = ("{}", "I live in{}Rome", "{}", "my password is{}x1", "    {}", "remember:{}", "{}", "“{}", "User's{}")


def _turn(text: str) -> LoggedTurn:
    return LoggedTurn(
        id="t", sequence=1, scope=Scope("a"), session_id="s", user_text=text, assistant_text="", observed_at=NOW
    )


def _question(text: str) -> object:
    history = (Message(Role.USER, text), Message(Role.ASSISTANT, text))
    query = Query(text=text, history=history, now=NOW, max_chars=CHARS)
    return query.search_text, query.search_words, QueryFeatures.of(query)


def _model_answer(text: str) -> object:
    try:
        return parse(text)
    except Exception:  # noqa: BLE001 - only the time counts
        return None


READERS: dict[str, Callable[[str], object]] = {
    "strip_block": strip_block,
    "the content policy, redaction included": content_policy.reason,
    "asks_to_remember": asks_to_remember,
    "spoken": lambda text: spoken([_turn(text)]),
    "quotes": lambda text: quotes.candidates([_turn(text)]),
    "model_answer": _model_answer,
    "decide": lambda text: decide(Query(text=text, now=NOW, max_chars=CHARS), Signals()),
    "question": _question,
    "keywords": local_keywords,
    "voice": to_third_person,
    "terms": terms,
    "values": values,
    "statement": statement,
    "period": lambda text: period_of(text, NOW),
    "refuses": refuses,
}


def texts() -> list[str]:
    """Every run, every other one in a frame."""
    return [FRAMES[number % len(FRAMES)].replace("{}", run * (CHARS // len(run))) for number, run in enumerate(RUNS)]


def measure() -> None:
    """Read every text and tell, line by line, which reader is at work and the processor time it took."""
    for text in texts():
        for name, read in READERS.items():
            sys.stdout.write(f"{name}\t{text[:24]!r}\t")
            sys.stdout.flush()
            began = time.process_time()
            read(text)
            sys.stdout.write(f"{time.process_time() - began:.3f}\n")


def test_no_run_of_characters_takes_a_reader_long() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.property.test_reading_time import measure; measure()"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == len(texts()) * len(READERS)
    assert [line for line in lines if float(line[-1]) > MOST_CPU_SECONDS] == []
