"""What an agent learned in a run, for all of its users. Pure.

Strategy. Every user of the agent is shown a lesson, so it may tell nothing about a person, and in doubt it is dropped. Nothing
the user wrote is a source. One source is the names of tools: a tool that failed and succeeded after another one was called. The
other is sentences of the agent's answers that tell what to do the next time, in English, where names can be seen: without a
person, a name, a number, a quotation, or a word that the user's statements and memories have. What the user dictated is dropped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from string import ascii_lowercase

from semrouter_memory.language.names import entities
from semrouter_memory.language.phrases import begins, phrases, tells_failure
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.sentences import orders, sentences
from semrouter_memory.language.terms import terms
from semrouter_memory.language.words import tokens
from semrouter_memory.model import Candidate, Episode, LoggedTurn, Memory, MemoryType, ToolUse
from semrouter_memory.retain import content_policy
from semrouter_memory.retain.directives import is_lesson, spoken
from semrouter_memory.retain.episodes import answer_sentences, rendered

EXTRACTOR = "agent_lessons"

_MAX_CHARS = 200
_MAX_LESSONS = 3
_MAX_TOOLS = 6
_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,40}")
_UNSAFE = re.compile(r"\b\d|\d{2}|[^\w\s.,;:!'’()-]")
_GENERIC = frozenset(
    terms(
        "lesson lessons learned future always never avoid careful remember better must should check test use run first"
    )
)
"""Terms of lessons about anything."""


def learned(turns: Sequence[LoggedTurn], agent: str) -> Episode:
    """The steps of the agent's run in a session, and its lessons; none without tools."""
    own = spoken(turns)
    run = [turn for turn, text in zip(turns, own, strict=True) if turn.agent == agent and text]
    tools = [tool for turn in run for tool in turn.tools if _TOOL.fullmatch(tool.name)]
    texts = [*own, *(tool.outcome for tool in tools)]
    names = _names(texts)
    tools = [tool for tool in tools if names.isdisjoint(_tool_terms(tool)) and not content_policy.reason(tool.name)]
    if not tools:
        return Episode()
    private = names | _private(each for text in texts for each in sentences(text) if _tells_of_a_person(each))
    said = frozenset(terms(" ".join(turn.user_text for turn in turns)))
    told = (each for turn in run for each in _told(turn.assistant_text, private) if not said.issuperset(terms(each)))
    steps = dict.fromkeys(tool.name for tool in tools)
    return Episode(steps=tuple(steps)[:_MAX_TOOLS], lessons=(*_orders_of_tools(tools), *told)[:_MAX_LESSONS])


def candidates(run: Episode, known: frozenset[str], observed_at: datetime) -> list[Candidate]:
    """The lessons as memories, for no turn in particular: nothing leads from them to the user.

    Args:
        known: terms of what is known of the user; no lesson has one of them.
    """
    return [
        Candidate(
            type=MemoryType.PROCEDURAL,
            content=rendered(Episode(steps=run.steps, lessons=(each,))),
            observed_at=observed_at,
            extractor=EXTRACTOR,
        )
        for each in dict.fromkeys(run.lessons)
        if known.isdisjoint(terms(each))
    ]


def known_terms(memories: Iterable[Memory]) -> frozenset[str]:
    """Terms of memories about a person: of those that mention one, or answer a question.

    A request ("Deploy the billing service") is none: it is what the run was about.
    """
    return _private(
        each.searched for each in memories if each.context or each.asked or _tells_of_a_person(each.searched)
    )


def _private(statements: Iterable[str]) -> frozenset[str]:
    return frozenset(term for each in statements for term in terms(each)) - _GENERIC


def _names(texts: Sequence[str]) -> frozenset[str]:
    """Terms of the names that the user and the tools mention."""
    found = entities({str(number): text for number, text in enumerate(texts)})
    return frozenset(terms(" ".join(name for each in found for name in (each.name, *each.aliases))))


def _tool_terms(tool: ToolUse) -> list[str]:
    return terms(tool.name.replace("_", " "))


def _told(answer: str, private: frozenset[str]) -> Iterator[str]:
    """The lessons in an answer that are about no person."""
    for each in answer_sentences(answer):
        if len(each) <= _MAX_CHARS and is_lesson(each) and _is_impersonal(each) and private.isdisjoint(terms(each)):
            yield each.rstrip(" .!")


def _is_impersonal(text: str) -> bool:
    return not (
        _UNSAFE.search(text)
        or CJK.search(text)
        or _has_capitals(text)
        or _tells_of_a_person(text)
        or phrases("persons").occur_in(text)
        or content_policy.reason(text)
    )


def _tells_of_a_person(text: str) -> bool:
    return phrases("of_persons").occur_in(text) or phrases("first_person").occur_in(text)


def _has_capitals(sentence: str) -> bool:
    """Whether a word may be a name: it has a capital, and neither begins the sentence nor, behind a colon, an order."""
    label, colon, told = sentence.partition(": ")
    if colon and (orders(told) or begins(tokens(told), phrases("instructs"))):
        told = told[:1].lower() + told[1:]
    letters = (char for char in label[1:] + told if char.isalnum() and not char.isdecimal())
    return any(char not in ascii_lowercase for char in letters)


def _orders_of_tools(tools: Sequence[ToolUse]) -> Iterator[str]:
    """Which tool has to be called before which: the one between a failure and the success after it."""
    for place, tool in enumerate(tools):
        behind = tools[place + 1 :]
        again = next((at for at, each in enumerate(behind) if each.name == tool.name), 0)
        if again and tells_failure(tool.outcome) and behind[again].outcome and not tells_failure(behind[again].outcome):
            yield f"{tool.name} failed at first and succeeded after {behind[again - 1].name}"
