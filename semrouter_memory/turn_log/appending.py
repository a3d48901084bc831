"""The append of one turn: its session, whether it is a repetition, and what it continues. Pure.

deleted? -> session, chain -> paused? -> the same again? -> merge an incomplete turn -> write.

Strategy. A session is found by what the client calls it, else by the chain of stored responses, else by the transcript
that the turn continues; always within the owner, and one session belongs to one scope: a conversation that moves to
another project goes on in another session. Several conversations can share a transcript (two that begin with "hi" and get
the same answer). A continuation then goes to one that is not continued yet, the most recent first.

A turn is incomplete when its answer was only tool calls and the server keeps the conversation. The next step of the tool
loop takes its texts and tools over, so a loop is stored as one row, and a retried step still finds the user's text. The
last step, with the answer, is the turn that is accepted; it is never a repetition.

Where clients repeat the conversation, the first step of a loop is accepted as a turn without an answer, and learned from
at once: it may be all that comes. The loop's last step repeats its words and brings the answer; then the turn waits
again, for those who read answers as well. The place of a conversation's first turn says nothing; there its words tell that
it is the same.

Where clients drop an answer that was stopped, or never came, the next request has the words of both turns: only those that
no turn has yet are stored, or what was changed or deleted meanwhile would count as said again.

A pause forbids every exchange that any part of it touches, also when its turn arrives long after: what was said in a
pause cannot be told apart in an exchange that began before it. A session of which the user asked not to remember it keeps its
turns without a word, so that what continues it is found to belong to it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from semrouter_memory.databases import micros
from semrouter_memory.model import Appended, AppendOutcome, Turn, TurnState
from semrouter_memory.turn_log.client_values import (
    BoundedTurn,
    Digests,
    bounded_transcripts,
    dump_items,
    load_items,
    new_session_id,
    storable_texts,
    storable_tools,
)
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow
from semrouter_memory.turn_log.storage import NEWEST, Changes, View, waiting_turns
from semrouter_memory.turn_log.tombstones import silenced

_RETRIED_MICROS = 600_000_000
"""For so long the same first words, while they have no answer, are taken for a retry and not for another conversation."""
_MAX_ADDED = 8
"""Texts that a user adds at most, one after the other, to a turn that has no answer."""
_UNDONE = {TurnState.EXTRACTED: "extracted", TurnState.EMPTY: "empty"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the decision depends on, apart from the turn itself.

    Attributes:
        sequence: its own number.
        previous: the turn that was answered by the response that this one continues.
        session_id: "" for a new transcript session, which gets its id when it is made.
        session: the session of that id; None for a new one.
        partial: the incomplete turn that the new one merges.
        is_silenced: the session is not remembered: only the turn's place in the conversation is stored.
    """

    digests: Digests
    sequence: int
    previous: TurnRow | None
    session_id: str
    session: SessionRow | None
    partial: TurnRow | None
    is_silenced: bool

    def own_keys(self, bound: BoundedTurn, after: int) -> list[str]:
        """By which a repetition of the turn is recognised."""
        turn, fingerprint, digests = bound.turn, bound.fingerprint, self.digests
        positions = digests.position_keys(turn, self.session_id, fingerprint, after)
        return [*digests.request_keys(turn, fingerprint), *positions]


async def _look_around(view: View, bound: BoundedTurn) -> Surroundings | None:
    """None: a deletion of its scope covers the turn, or remembering was paused during it."""
    turn, observed_at = bound.turn, micros(bound.turn.observed_at)
    if view.tombstones.covers_scope(turn.scope, observed_at):
        return None
    previous = await view.answered_by(turn.scope, turn.hints.previous_response_id)
    session_id, session = await _place(view, turn, previous)
    is_silenced = turn.pauses_session or view.tombstones.silences(session_id)
    if not is_silenced and view.tombstones.paused_between(observed_at, bound.ended_at):
        return None
    return Surroundings(
        digests=view.rows.digests,
        sequence=await view.rows.next_sequence(),
        previous=previous,
        session_id=session_id,
        session=session,
        partial=await _partial(view, turn, previous, session),
        is_silenced=is_silenced,
    )


async def _place(view: View, turn: Turn, previous: TurnRow | None) -> tuple[str, SessionRow | None]:
    """The session's id, and the session if it exists. The first hint that is set decides."""
    scope, hints, digests = turn.scope, turn.hints, view.rows.digests
    if hints.explicit:
        session_id = digests.session_id(scope, "header", hints.explicit)
    elif hints.conversation_id:
        session_id = digests.session_id(scope, "conversation", hints.conversation_id)
    elif hints.previous_response_id:
        continued = await view.session(scope, previous.session_id) if previous else None
        if continued is not None and continued.scope == scope:
            return continued.id, continued
        # Derived from the response, so that several turns that continue it meet.
        session_id = digests.session_id(scope, "response", hints.previous_response_id)
    else:
        found = await _transcript_session(view, turn)
        return found.id if found else "", found
    return session_id, await view.session(scope, session_id)


async def _transcript_session(view: View, turn: Turn) -> SessionRow | None:
    """Of several that share the transcript, one that is not continued yet, the most recent first."""
    if not turn.hints.history_hash:
        return None
    known = await view.found_by(view.rows.digests.transcript_key(turn.scope, turn.hints.history_hash))
    sessions = await view.rows.sessions(row.session_id for row in known)
    best = max(
        (row for row in known if row.session_id in sessions),
        key=lambda row: (row.sequence == sessions[row.session_id].newest, row.sequence),
        default=None,
    )
    return sessions[best.session_id] if best else None


async def _partial(view: View, turn: Turn, previous: TurnRow | None, session: SessionRow | None) -> TurnRow | None:
    """The incomplete turn that this one continues."""
    row = previous
    if row is None and turn.hints.conversation_id and session is not None and not any(turn.user_texts):
        # With texts it may be a second attempt at the incomplete turn, whose words it would then hold twice.
        row = next(iter(view.visible(await view.rows.before(session.id, NEWEST, 1))), None)
    if row is None or row.accepted:
        return None
    own = await view.session(turn.scope, row.session_id)
    return row if own is not None and own.scope == turn.scope else None


async def decide_append(
    view: View, bound: BoundedTurn, *, new_id: Callable[[], str], max_turn_chars: int
) -> tuple[Changes, Appended]:
    """What becomes of the turn.

    Args:
        max_turn_chars: bound on a turn's user texts together, those of a merged turn included.
    """
    turn, forgotten = bound.turn, Appended(AppendOutcome.FORGOTTEN)
    changes = Changes(latest=micros(turn.observed_at))
    around = await _look_around(view, bound)
    if around is None:
        return changes, forgotten
    stored = 0
    if turn.complete and around.partial is None:
        if (found := await _found_again(view, bound, around, _is_of)) is not None:
            return changes, await _repeat(changes, view, bound, found, around)
        stored, around = await _stored_before(view, bound, around)
    session = around.session or SessionRow(id=around.session_id or new_session_id(new_id()), scope=turn.scope)
    row, content = _new_row(bound, around, session, stored)
    if (partial := around.partial) is not None:
        said = (await view.rows.contents([partial])).get(partial.sequence)
        row, content = _merged(row, content, partial, said, max_turn_chars)
        changes.removed.append(partial)
        if partial.session_id != session.id and len(await view.rows.before(partial.session_id, NEWEST, 2)) == 1:
            changes.sessions_removed.append(partial.session_id)
    changes.keys += [(key, row.sequence, when) for key, when in row.keys.items()]
    session = session.with_turn(row)
    if around.is_silenced:
        if turn.pauses_session:
            _silence(changes, turn, around, await view.rows.after(session.id, 0), session.id)
        row, content, session = _as_place(row), Content(user_texts=()), _silent(session)
    elif turn.complete:
        changes.counts.update(accepted=1, waiting=1)
    changes.added.append((row, content))
    changes.sessions.append(session)
    if around.is_silenced:
        return changes, forgotten
    outcome = AppendOutcome.ACCEPTED if turn.complete else AppendOutcome.INCOMPLETE
    return changes, Appended(outcome, session.id, around.digests.turn_id(row.sequence))


async def _found_again(
    view: View, bound: BoundedTurn, around: Surroundings, is_of: Callable[[View, Turn, TurnRow], Awaitable[bool]]
) -> TurnRow | None:
    """The turn that this one repeats.

    Args:
        is_of: whether a turn that began a conversation with the same words is the same.
    """
    turn = bound.turn
    for key in around.own_keys(bound, around.session.newest if around.session else 0):
        if found := await view.found_by(key):
            return found[0]
    for key in around.digests.opening_keys(turn, bound.fingerprint):
        for row in (await view.found_by(key))[:1]:
            return row if await is_of(view, turn, row) else None
    return None


async def _stored_before(view: View, bound: BoundedTurn, around: Surroundings) -> tuple[int, Surroundings]:
    """How many of the turn's first texts another turn at its place has already, and the session that this one is in."""
    for beginning in _beginnings(bound):
        if (row := await _found_again(view, beginning, around, _is_beginning)) is not None:
            session = (await view.rows.sessions([row.session_id]))[row.session_id]
            return len(beginning.turn.user_texts), replace(around, session=session)
    return 0, around


def _beginnings(bound: BoundedTurn) -> Iterator[BoundedTurn]:
    """What the turn was before the user added a text, and before that, as far as that can be told."""
    turn, texts = bound.turn, bound.turn.user_texts
    if bound.text_chars != sum(map(len, texts)):
        return
    for count in range(len(texts) - 1, max(len(texts) - 1 - _MAX_ADDED, 0), -1):
        first = replace(turn, user_texts=texts[:count], request_id="", retry_of="")
        yield replace(bound, turn=first, text_chars=sum(map(len, first.user_texts)))


async def _is_beginning(view: View, turn: Turn, row: TurnRow) -> bool:
    """Whether the user went on from the same first words: not long ago, and without an answer, or they are erased."""
    content = (await view.rows.contents([row])).get(row.sequence)
    is_answered = content is not None and bool(content.assistant_text)
    return micros(turn.observed_at) <= row.observed_at + _RETRIED_MICROS and not is_answered


async def _is_of(view: View, turn: Turn, row: TurnRow) -> bool:
    """Whether the same first words are the same turn: its end, a step that arrives late, or a retry."""
    at = micros(turn.observed_at)
    if at <= row.observed_at or (turn.looped and turn.tools):
        return True
    return at <= row.observed_at + _RETRIED_MICROS and await _unanswered(view, row) is not None


async def _unanswered(view: View, row: TurnRow) -> Content | None:
    """What was said in a turn that has no answer; None for one that has, and where the words are erased."""
    content = (await view.rows.contents([row])).get(row.sequence)
    return content if content is not None and content.user_texts and not content.assistant_text else None


async def _repeat(changes: Changes, view: View, bound: BoundedTurn, row: TurnRow, around: Surroundings) -> Appended:
    """The client continues from the answer that it got last; the first one is the answer of a turn that had none."""
    turn = bound.turn
    learned = dict.fromkeys(around.digests.answer_keys(turn), around.sequence)
    changes.keys += [(key, row.sequence, when) for key, when in learned.items()]
    hashes = bounded_transcripts((*row.transcript_hashes, *turn.transcript_hashes))
    outcome, after = AppendOutcome.DUPLICATE, replace(row, keys={**row.keys, **learned}, transcript_hashes=hashes)
    session = (await view.rows.sessions([row.session_id]))[row.session_id]
    if not around.is_silenced and (content := await _with_answer(view, bound, row)) is not None:
        outcome = AppendOutcome.COMPLETED
        changes.answered.append((row, content))
        after, session = await _with_its_end(view, turn, after, session)
        changes.sessions.append(session)
        if after.state is not row.state:
            changes.counts.update({_UNDONE[row.state]: -1, "waiting": 1})
    changed = {row.sequence: after}
    if turn.ends_session:
        newest = (await view.rows.turns([session.newest])).get(session.newest, row)
        changes.sessions.append(replace(session, end_at=session.newest))
        changed[newest.sequence] = replace(changed.get(newest.sequence, newest), ends=True)
    changes.updated += changed.values()
    return Appended(outcome, row.session_id, around.digests.turn_id(row.sequence))


async def _with_answer(view: View, bound: BoundedTurn, row: TurnRow) -> Content | None:
    """What was said in a stored turn that had no answer, with that of its repetition; None when nothing is to be added.

    That is so, too, where a memory was deleted meanwhile, which the answer may repeat.
    """
    turn = bound.turn
    if not turn.assistant_text or row.state is TurnState.DEAD or row.observed_at <= view.tombstones.last_memory:
        return None
    if (said := await _unanswered(view, row)) is None:
        return None
    return replace(said, assistant_text=turn.assistant_text, tools=turn.tools or said.tools, items=bound.items)


async def _with_its_end(view: View, turn: Turn, row: TurnRow, session: SessionRow) -> tuple[TurnRow, SessionRow]:
    """A turn whose answer has come, and its session, whose episode does not cover it any more.

    The session's newest turn is read again. Another one is not: what was said since may have taken it back.
    """
    said = max(session.last_observed_at, micros(turn.observed_at))
    if row.sequence == session.newest:
        row = replace(row, state=TurnState.WAITING, kept_since=None, rules_done=False)
        others = [each for each in await waiting_turns(view.rows, session) if each.sequence != row.sequence]
        session = session.recounted([*others, row])
    session = replace(session, last_observed_at=said)
    if session.summarised >= row.sequence:
        later = await view.rows.after(session.id, row.sequence - 1)
        session = replace(session, summarised=row.sequence - 1, unsummarised=sum(each.accepted for each in later))
    return row, session


def _silence(changes: Changes, turn: Turn, around: Surroundings, before: Sequence[TurnRow], session_id: str) -> None:
    """Let the session not be remembered from this turn on, and erase what was said in it before.

    What waits is deleted, but its place in the session stays.
    """
    at = micros(turn.observed_at)
    changes.tombstone = silenced(around.digests.owner(turn.scope), at, session_id)
    for row in before:
        if around.partial is None or row.sequence != around.partial.sequence:
            changes.contents_erased.append(row)
            if row.open:
                counted = "waiting" if row.state is TurnState.WAITING else "dead_lettered"
                changes.counts.update({"deleted": 1, counted: -1})
                changes.updated.append(replace(_as_place(row), kept_since=at))


def _silent(session: SessionRow) -> SessionRow:
    """The session with nothing to do, and without a claim on it."""
    rest = session.recounted(()).released(not_before=None)
    return replace(rest, dead=0, summarised=session.newest, unsummarised=0, end_at=0)


def _as_place(row: TurnRow) -> TurnRow:
    """The row of a turn of which only its place in the conversation is known."""
    row = replace(row, remember=False, rules_done=True, rules_found=False, error="", transcript_hashes=())
    return replace(row, state=TurnState.EMPTY, kept_since=row.observed_at) if row.accepted else row


def _keys(bound: BoundedTurn, around: Surroundings, stored: int) -> list[str]:
    """By which repetitions of the turn find it, and the turns that go on from it."""
    turn, digests, sequence = bound.turn, around.digests, around.sequence
    keys = digests.answer_keys(turn)
    if not turn.complete:
        return keys
    # Where the turn does not say what came before, its repetition comes right after itself.
    keys += around.own_keys(bound, sequence)
    if turn.looped:
        keys += digests.opening_keys(turn, bound.fingerprint)
    for beginning in _beginnings(bound):
        # It may come later: that a client stopped an answer, the proxy tells after a minute.
        if len(beginning.turn.user_texts) > stored:
            keys += around.own_keys(beginning, sequence)
            keys += digests.opening_keys(beginning.turn, beginning.fingerprint)
    return keys


def _new_row(bound: BoundedTurn, around: Surroundings, session: SessionRow, stored: int) -> tuple[TurnRow, Content]:
    """The turn as it is stored.

    Args:
        stored: how many of its first texts another turn has.
    """
    turn, digests, sequence = bound.turn, around.digests, around.sequence
    row = TurnRow(
        sequence=sequence,
        owner=digests.owner(turn.scope),
        project_id=turn.scope.project_id,
        session_id=session.id,
        state=TurnState.WAITING if turn.complete else TurnState.INCOMPLETE,
        observed_at=micros(turn.observed_at),
        kept_since=None if turn.complete else micros(turn.observed_at),
        remember=bound.remember,
        parent=around.previous.sequence if around.previous else None,
        response=digests.response_key(turn.scope, turn.response_id) if turn.response_id else "",
        previous=_previous_response(turn, digests),
        ends=turn.ends_session,
        keys=dict.fromkeys(_keys(bound, around, stored), sequence),
        agent=turn.agent,
        transcript_hashes=bounded_transcripts(turn.transcript_hashes) if turn.complete else (),
    )
    content = Content(
        user_texts=turn.user_texts[stored:],
        assistant_text=turn.assistant_text,
        tools=turn.tools,
        model=turn.model,
        items=bound.items,
    )
    return row, content


def _previous_response(turn: Turn, digests: Digests) -> str | None:
    hints = turn.hints
    if hints.previous_response_id:
        return digests.response_key(turn.scope, hints.previous_response_id)
    # What a conversation held before is with the server.
    return None if hints.conversation_id else ""


def _merged(
    row: TurnRow, content: Content, before: TurnRow, said: Content | None, max_turn_chars: int
) -> tuple[TurnRow, Content]:
    """The turn with what the incomplete one said; None: that was erased."""
    # A step that is tried twice continues the response before the last one: the items would hold it twice.
    in_order = not row.previous or row.previous == before.response
    # When the words were said: a deletion in between must find them older than itself.
    observed_at = min(row.observed_at, before.observed_at)
    row = replace(
        row,
        observed_at=observed_at,
        kept_since=None if row.kept_since is None else observed_at,
        remember=row.remember or before.remember,
        ends=row.ends or before.ends,
        parent=before.parent,
        previous=before.previous,
        keys={**before.keys, **row.keys},
    )
    if said is None:
        return row, replace(content, items=None)
    return row, replace(
        content,
        user_texts=tuple(storable_texts((*said.user_texts, *content.user_texts), max_turn_chars)),
        tools=tuple(storable_tools((*said.tools, *content.tools))),
        items=_joined_items(said.items, content.items, max_turn_chars) if in_order else None,
    )


def _joined_items(before: bytes | None, after: bytes | None, max_turn_chars: int) -> bytes | None:
    first, second = load_items(before), load_items(after)
    return None if first is None or second is None else dump_items((*first, *second), max_turn_chars)
