"""Reads a message, or a session's turns, into statements about the user."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from semrouter_memory.model import Candidate, LoggedTurn, MemoryType
from semrouter_memory.retain import remember, unfit
from semrouter_memory.retain.rules import (
    answers,
    antecedents,
    asides,
    chinese,
    clauses,
    corrections,
    doubts,
    english,
    feedback,
    fragments,
    howto,
    mentions,
)
from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.asides import Aside
from semrouter_memory.retain.rules.own_words import closes_fiction, opens_fiction, own_words, tidied
from semrouter_memory.retain.rules.statement import Scene, Statement
from semrouter_memory.retain.rules.topic import topic_of
from semrouter_memory.retain.rules.voice import expand

EXTRACTOR = "rules"
_MAX_STATEMENTS = 20
_MAX_CHARS = 500
_MIN_CHARS = 4
_TOPIC_TURNS = 4
"""How long a request names the topic of what is said after it."""
_DRAFT_TURNS = 3
_DRAFTS = re.compile(
    r"\b(?:write|draft|compose|rewrite|rephrase|polish|summari[sz]e|translate|proof-?read|shorten|reword|poem|story|essay|letter|e-?mail|cover letter|speech|post|caption|bio|toast|text for)\b"
    r"|写|翻译|润色|总结|改写",
    re.IGNORECASE,
)
_SHOUTED = re.compile(r"\b(?:LOVE|SO|REALLY|TOTALLY|GREAT|JUST|EXACTLY|DEFINITELY)\b")
"""Capitals for stress are mostly irony."""

_TELLS = re.compile(r"^(?:\S+\s){0,2}?(?:I|we|it|he|she|they|my|our|the|just)\s", re.IGNORECASE)
_BARE_NO = re.compile(r"^(?:no|nothing)\s(?!.*\b(?:please|pls|plz)\b)", re.IGNORECASE)


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What the turns say about the user, oldest first.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them, read only for whom "she" means, what it is about and whether a game is on.
    """
    scene = Scene()
    for turn in context:
        scene = after_answer(read(turn.user_text, scene)[1], turn.assistant_text)
    found: list[list[Candidate]] = []
    for turn in turns:
        statements, scene = read(turn.user_text, scene)
        scene = after_answer(scene, turn.assistant_text)
        if found and asides.takes_back(tidied(turn.user_text)):
            found[-1].clear()
        found.append([_candidate(statement, turn) for statement in statements])
    return tuple(candidate for of_turn in found for candidate in of_turn)


def spoken(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> list[str]:
    """What of each turn, those of the context first, the user said as themselves; "" where nothing is."""
    scene, found = Scene(), list[str]()
    for turn in (*context, *turns):
        if asides.takes_back(tidied(turn.user_text)) and found:
            found[-1] = ""
        silent = _is_aside(tidied(turn.user_text), scene)
        found.append("" if silent else own_words(turn.user_text))
        scene = after_answer(read(turn.user_text, scene)[1], turn.assistant_text)
    return found


def after_answer(scene: Scene, assistant_text: str) -> Scene:
    """The scene once the assistant has answered. Of the answer only the kind of its question is kept."""
    return replace(scene, asked=answers.question_of(assistant_text), answered=bool(assistant_text.strip()))


def read(text: str, scene: Scene = Scene()) -> tuple[tuple[Statement, ...], Scene]:  # noqa: B008 - frozen, without state
    """Statements of one message, each once, and the scene for the next one."""
    own, text = own_words(text), tidied(text)
    aside = asides.opened(text)
    if _is_aside(text, scene):
        return (), replace(
            scene,
            aside_turns=scene.aside_turns - 1,
            aside=_fading(scene, aside),
            asked="",
            people=antecedents.forgotten(scene.people),
        )
    earlier, scene = scene.topic, _entered(text, own, scene, aside)
    people = antecedents.renewed(scene.people) if scene.topic != earlier else dict(scene.people)
    found: dict[str, Statement] = {}
    for sentence in _sentences(own):
        complained = any(statement.type is MemoryType.REFLECTIVE for statement in found.values())
        for statement in _read_sentence(sentence, people, scene, complained=complained):
            if _acceptable(statement.content) and len(found) < _MAX_STATEMENTS:
                found.setdefault(statement.content.lower(), statement)
                scene = replace(
                    scene, stated=statement.content if corrections.tied(statement.content) else scene.stated
                )
        scene = replace(scene, asked=answers.still_asked(scene.asked))
    return tuple(found.values()), replace(scene, fiction=opens_fiction(text), people=people)


def asks_to_remember(text: str) -> bool:
    """Whether the user, in their own words, asks to have something remembered."""
    return remember.may_ask(text) and any(remember.wish(sentence) for sentence in _sentences(own_words(text)))


def _is_aside(text: str, scene: Scene) -> bool:
    """Whether a game, a supposition or a text in work goes on with this message."""
    return (scene.fiction and not closes_fiction(text)) or asides.goes_on(text, scene.aside)


def _fading(scene: Scene, opened: Aside) -> Aside:
    if opened is not Aside.NONE:
        return opened
    return scene.aside if scene.aside_turns > 1 else Aside.NONE


def _entered(text: str, own: str, scene: Scene, aside: Aside) -> Scene:
    """The scene as this message finds it and changes it."""
    topic, turns = topic_of(own), _TOPIC_TURNS
    if not topic:
        topic, turns = (scene.topic, scene.topic_turns - 1) if scene.topic_turns > 1 else ("", 0)
    return replace(
        scene,
        aside=aside,
        aside_turns=asides.FADES_AFTER[aside.value],
        topic=topic,
        topic_turns=turns,
        drafting=_DRAFT_TURNS if _DRAFTS.search(text) else max(scene.drafting - 1, 0),
    )


def _sentences(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from chinese.sentences(line) if chinese.is_chinese(line) else clauses.sentences(line)


def _read_sentence(sentence: str, people: dict[str, str], scene: Scene, *, complained: bool) -> Iterator[Statement]:
    wish, reason = clauses.with_reason(sentence)
    if reason and not scene.drafting and (units := feedback.in_units(wish)):
        yield Statement(units, MemoryType.REFLECTIVE)
        yield from _read_sentence(reason, people, scene, complained=complained)
        return
    if reason and not chinese.is_chinese(sentence) and _is_lesson(wish, scene, complained=complained):
        yield from _read_sentence(wish, people, scene, complained=complained)
        yield from _read_sentence(reason, people, scene, complained=complained)
        return
    trusted = False
    if wanted := remember.wish(sentence):
        sentence, trusted = wanted, True
    if chinese.is_chinese(sentence):
        yield from _read_chinese(sentence, people, scene, trusted=trusted)
    elif steps := howto.procedure(lex.LEAD.sub("", sentence)):
        people.update(antecedents.followed(people, expand(sentence), scene.topic))
        yield Statement(steps, MemoryType.PROCEDURAL)
    elif preference := howto.standing_instruction(lex.LEAD.sub("", sentence)):
        yield Statement(preference, MemoryType.REFLECTIVE)
    elif lessons := feedback.lessons(
        sentence, criticism=_criticised(scene, complained=complained), complained=complained
    ):
        people.update(antecedents.followed(people, expand(sentence), scene.topic))
        for lesson in lessons:
            yield Statement(lesson, MemoryType.REFLECTIVE)
    else:
        yield from _read_english(sentence, people, scene, trusted=trusted)


def _criticised(scene: Scene, *, complained: bool) -> bool:
    """Whether a complaint would be about how the assistant answers."""
    return (scene.answered or complained) and not scene.drafting


def _is_lesson(wish: str, scene: Scene, *, complained: bool) -> bool:
    bare = lex.LEAD.sub("", wish)
    criticism = _criticised(scene, complained=complained)
    return bool(howto.standing_instruction(bare) or feedback.lessons(wish, criticism=criticism, complained=complained))


def _read_chinese(sentence: str, people: dict[str, str], scene: Scene, *, trusted: bool) -> Iterator[Statement]:
    if steps := howto.procedure(sentence):
        yield Statement(steps, MemoryType.PROCEDURAL)
        return
    if lessons := chinese.lessons(
        sentence, criticism=scene.answered and not scene.drafting, drafting=bool(scene.drafting)
    ):
        for lesson in lessons:
            yield Statement(lesson, MemoryType.REFLECTIVE)
        return
    contents, known = chinese.statements(sentence, people, trusted=trusted)
    people.update(known)
    for content in contents:
        yield Statement(content, MemoryType.REFLECTIVE if chinese.is_instruction(content) else MemoryType.SEMANTIC)


def _read_english(sentence: str, people: dict[str, str], scene: Scene, *, trusted: bool) -> Iterator[Statement]:
    if (_SHOUTED.search(sentence) or lex.JOKE.search(sentence)) and not trusted:
        people.update(antecedents.forgotten(people))
        return
    if right := corrections.corrected(expand(sentence), scene.stated):
        yield Statement(right, _type(right))
        return
    joking = bool(lex.LAUGHTER.search(sentence))
    stated = doubts.without_hearsay(clauses.declarative(expand(sentence)))
    before, behind = _unread(expand(sentence), stated)
    people.update(antecedents.followed(people, before, scene.topic))
    found: list[str] = []
    if plan := fragments.request(sentence):
        found.append(plan)
    if scene.asked and (answer := answers.answered(sentence, scene.asked, scene.topic, people)):
        found.append(answer)
    for clause in _parts(clauses.clauses(stated), people, scene):
        content = english.statement(clause, people, topic=scene.topic, trusted=trusted)
        people.update(antecedents.followed(people, clause, scene.topic))
        if content and not (joking and lex.GRANDIOSE.search(content)):
            found.append(content)
    people.update(antecedents.followed(people, behind, scene.topic))
    found.extend(_mentioned(sentence, stated, found))
    for content in found:
        yield Statement(content, _type(content))
    if trusted and stated and not found:
        content = english.as_it_is(stated)
        yield Statement(content, _type(content))


def _unread(sentence: str, stated: str) -> tuple[str, str]:
    """What a sentence asks, or others say in it, before and behind what it states."""
    before, _, behind = sentence.partition(stated) if stated else ("", "", sentence)
    return before, behind


def _parts(found: Sequence[str], people: Mapping[str, str], scene: Scene) -> Iterator[str]:
    """The clauses; one that says nothing as a whole is tried between its commas."""
    for clause in found:
        if ", " in clause and not english.statement(clause, people, topic=scene.topic):
            yield from _between_commas(clause)
        else:
            yield clause


def _mentioned(sentence: str, stated: str, found: Sequence[str]) -> list[str]:
    """Names, and dates of events, that are told by the way and stand in nothing found."""
    told = " ".join(found)
    names = [
        name for name in mentions.names(clauses.declarative(expand(sentence))) if name.rpartition(" ")[2] not in told
    ]
    return names + ([] if found else mentions.dated(stated or _asked(sentence)))


def _asked(sentence: str) -> str:
    """A question in which nobody else speaks of the user; what it takes for granted may be told by it."""
    whole = expand(sentence)
    return whole if doubts.without_hearsay(whole) == whole else ""


def _between_commas(clause: str) -> Iterator[str]:
    """The parts; in "I am on plain vim, no plugins" the second describes, it is no wish."""
    parts = clause.split(", ")
    described = bool(_TELLS.match(parts[0]))
    for part in parts:
        if not (described and _BARE_NO.match(part)):
            yield part


def _type(content: str) -> MemoryType:
    return MemoryType.REFLECTIVE if feedback.is_preference(content) else MemoryType.SEMANTIC


def _acceptable(content: str) -> bool:
    return _MIN_CHARS <= len(content) <= _MAX_CHARS and not unfit.reason(content)


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
