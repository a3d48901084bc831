"""Reads a message, or a session's turns, into statements about the user."""

from collections.abc import Iterator, Sequence

from semrouter_memory.model import Candidate, LoggedTurn, MemoryType
from semrouter_memory.retain.redact import is_redacted
from semrouter_memory.retain.rules import chinese, clauses, english, howto, remember
from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.mentions import introduced
from semrouter_memory.retain.rules.own_words import closes_fiction, opens_fiction, own_words
from semrouter_memory.retain.rules.statement import Scene, Statement
from semrouter_memory.retain.rules.voice import expand

EXTRACTOR = "rules"
_MAX_STATEMENTS = 20
_MAX_CHARS = 500
_MIN_CHARS = 4


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What the turns say about the user, oldest first.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them, read only for whom "she" means and whether a game is on.
    """
    scene = Scene()
    for turn in context:
        scene = read(turn.user_text, scene)[1]
    found: list[Candidate] = []
    for turn in turns:
        statements, scene = read(turn.user_text, scene)
        found.extend(_candidate(statement, turn) for statement in statements)
    return tuple(found)


def read(text: str, scene: Scene = Scene()) -> tuple[tuple[Statement, ...], Scene]:  # noqa: B008 - frozen, without state
    """Statements of one message, each once, and the scene for the next one."""
    fiction = scene.fiction and not closes_fiction(text)
    if fiction:
        return (), scene
    people = dict(scene.people)
    found: dict[str, Statement] = {}
    for sentence in _sentences(own_words(text)):
        for statement in _read_sentence(sentence, people):
            if _acceptable(statement.content) and len(found) < _MAX_STATEMENTS:
                found.setdefault(statement.content.lower(), statement)
    return tuple(found.values()), Scene(fiction=opens_fiction(text), people=people)


def asks_to_remember(text: str) -> bool:
    """Whether the user, in their own words, asks to have something remembered."""
    return any(remember.wish(sentence) for sentence in _sentences(own_words(text)))


def _sentences(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from chinese.sentences(line) if chinese.is_chinese(line) else clauses.sentences(line)


def _read_sentence(sentence: str, people: dict[str, str]) -> Iterator[Statement]:
    trusted = False
    if wanted := remember.wish(sentence):
        sentence, trusted = wanted, True
    if chinese.is_chinese(sentence):
        yield from _read_chinese(sentence, people, trusted=trusted)
        return
    if steps := howto.procedure(sentence):
        yield Statement(steps, MemoryType.PROCEDURAL)
    elif preference := howto.standing_instruction(lex.LEAD.sub("", sentence)):
        yield Statement(preference)
    else:
        yield from _read_english(sentence, people, trusted=trusted)


def _read_chinese(sentence: str, people: dict[str, str], *, trusted: bool) -> Iterator[Statement]:
    if steps := howto.procedure(sentence):
        yield Statement(steps, MemoryType.PROCEDURAL)
        return
    contents, known = chinese.statements(sentence, people, trusted=trusted)
    people.update(known)
    for content in contents:
        yield Statement(content)


def _read_english(sentence: str, people: dict[str, str], *, trusted: bool) -> Iterator[Statement]:
    joking = bool(lex.LAUGHTER.search(sentence))
    stated = clauses.declarative(expand(sentence))
    found = 0
    for clause in clauses.clauses(stated):
        content = english.statement(clause, people, trusted=trusted)
        people.update(introduced(clause))
        if content and not (joking and content.startswith(("User is a", "User is the", "User has"))):
            found += 1
            yield Statement(content)
    if trusted and stated and not found:
        yield Statement(english.as_it_is(stated))


def _acceptable(content: str) -> bool:
    return _MIN_CHARS <= len(content) <= _MAX_CHARS and not is_redacted(content)


def _candidate(statement: Statement, turn: LoggedTurn) -> Candidate:
    return Candidate(
        type=statement.type,
        content=statement.content,
        observed_at=turn.observed_at,
        extractor=EXTRACTOR,
        session_id=turn.session_id,
        turn_ids=(turn.id,),
        model=turn.model,
    )
