"""What reads a user's message, and what messages may be made of: no text may stop a reader, or hold it for long."""

from collections.abc import Callable
from datetime import UTC, datetime

from semrouter_memory.codec.base import strip_block, transcript_hash
from semrouter_memory.errors import ChatModelError
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
from semrouter_memory.retain.steering import command

CHARS = 16_000
"""The longest message."""
NOW = datetime(2026, 3, 20, tzinfo=UTC)

RUNS = (
    " ", "\t", "\n", "\r", "\u3000", "\u00a0", *".,:;!?-_=+*#~>|/'\"`([{@$%…？。，：“的aA1",
    "a ", "1 ", "\n ", "\n\t", "I ", "my ", "a.", "a. ", "Dr. ", "1-", "a@", "=a", "<a>", "<b", "and I ", "https://", "code ", "password ", "is ", "one ", "a:b@",
    "\n> ", "'s ", "密码", "-----BEGIN ", "user a pass ", "sk-", "eyJ",
    "(1", "2026-02-10", "三", "万", "\u0301\u0327", "e\u0301\u0327",
)  # fmt: skip
FIGURES = ("3", "45", "2026", "1,200", "2.5", "２", "3@b.de", "一万", "三", "one", "twenty")
SIGNS = ("$", "€", "元", "usd", "%", "°", "-", ":", ".", "+", "(", ")", " ", "点", "月", "号", "²")
WORDS = (
    "may", "sept", "of", "first", "monday", "pm", "th", "old", "year", "km", "k", "the", "é", "http://example.com/3",
    "周", "下午", "半",
)  # fmt: skip


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
    except ChatModelError:
        return None


READERS: dict[str, Callable[[str], object]] = {
    "strip_block": strip_block,
    "transcript_hash": lambda text: transcript_hash((Message(Role.USER, text),)),
    # Many rules look at texts with a digit only.
    "the content policy, redaction included": lambda text: content_policy.reason(f"1 {text}"),
    "asks_to_remember": asks_to_remember,
    "spoken": lambda text: spoken([_turn(text)]),
    "quotes": lambda text: quotes.candidates([_turn(text)]),
    "model_answer": _model_answer,
    "command": command,
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
