"""Whatever happens to the turn log, in whatever order, every accepted turn is accounted for."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    Claim,
    PendingSession,
    Reach,
    Scope,
    SessionHints,
    Tombstone,
    ToolUse,
    Turn,
    TurnTotals,
)
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.examples import examples

T = TypeVar("T")

LEASE = timedelta(seconds=30)
MAX_ATTEMPTS = 2
SCOPES = [Scope("alice"), Scope("alice", "work"), Scope("bob")]
NAMES = st.sampled_from(["", "1", "2", "3"])


class TurnLogMachine(RuleBasedStateMachine):
    """A log, and beside it where each accepted turn must be: waiting, extracted, empty, dead or deleted."""

    claims: Bundle[Claim] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(tempfile.mkdtemp())
        self.generation = 0
        self.now_ = datetime(2026, 3, 1, tzinfo=UTC)
        self.log = self.opened()
        self.where: dict[str, str] = {}
        self.scopes: dict[str, Scope] = {}
        self.order: list[str] = []
        """Accepted turns, oldest first."""
        self.sessions: dict[str, str] = {}
        self.kept: set[str] = set()
        """Accepted turns that are still in the log."""
        self.open: set[str] = set()
        """Of these, the ones that no episode covers."""
        self.ends: set[str] = set()
        """Of these, the ones that a session's end was announced with."""
        self.tokens: dict[str, str] = {}
        self.silenced: set[str] = set()
        """Sessions that are not remembered."""

    def now(self) -> datetime:
        return self.now_

    def opened(self) -> SqliteTurnLog:
        return SqliteTurnLog(self.directory / "turns.db", clock=self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.log.close()
        self.runner.close()
        shutil.rmtree(self.directory)

    @rule(
        scope=st.sampled_from(SCOPES),
        text=NAMES,
        session=NAMES,
        conversation=NAMES,
        before=NAMES,
        history=NAMES,
        transcript=NAMES,
        response=NAMES,
        request=NAMES,
        retry=NAMES,
        complete=st.booleans(),
        looped=st.booleans(),
        answered=st.booleans(),
        remember=st.booleans(),
        ends=st.booleans(),
        pauses=st.integers(0, 9).map(lambda number: not number),
    )
    def append(self, **given: Any) -> None:
        self.append_turn(**given)

    def append_turn(
        self,
        *,
        scope: Scope,
        text: str,
        session: str = "",
        conversation: str = "",
        before: str = "",
        history: str = "",
        transcript: str = "",
        response: str = "",
        request: str = "",
        retry: str = "",
        complete: bool = True,
        looped: bool,
        answered: bool,
        remember: bool = False,
        ends: bool = False,
        pauses: bool = False,
    ) -> None:
        turn = Turn(
            scope=scope,
            hints=SessionHints(
                explicit=session, conversation_id=conversation, previous_response_id=before, history_hash=history
            ),
            user_texts=(text,) if text else (),
            assistant_text="fine" if answered else "",
            tools=(ToolUse("weather"),) if looped and answered else (),
            looped=looped,
            observed_at=self.now_,
            request_id=request,
            retry_of=retry,
            response_id=response,
            transcript_hashes=(transcript,) if transcript else (),
            complete=complete,
            ends_session=ends,
            pauses_session=pauses,
        )
        appended = self.log.append(turn, remember=remember)
        if pauses:
            self.note_silenced(scope)
        if appended.session_id in self.silenced:
            assert appended.outcome is AppendOutcome.DUPLICATE
        elif appended.outcome is AppendOutcome.ACCEPTED:
            assert appended.turn_id not in self.where
            self.where[appended.turn_id] = "waiting"
            self.scopes[appended.turn_id] = scope
            self.sessions[appended.turn_id] = appended.session_id
            self.order.append(appended.turn_id)
            self.kept.add(appended.turn_id)
            self.open.add(appended.turn_id)
            # An end may also come from the incomplete turn that this one completes.
            if ends or self.run(self.is_ended(appended.turn_id)):
                self.ends.add(appended.turn_id)
        elif appended.outcome is AppendOutcome.COMPLETED:
            self.note_answer(appended)
            if ends:
                self.announce(appended.session_id)
        elif appended.outcome is AppendOutcome.DUPLICATE and appended.turn_id not in self.where:
            # Said again, of a session that began with the wish not to be remembered: nobody knows its name until then.
            assert self.run(self.log.tombstones(scope)).silences(appended.session_id)
        elif appended.outcome is AppendOutcome.DUPLICATE:
            assert self.where[appended.turn_id] != "deleted"
            if ends:
                self.announce(appended.session_id)

    @rule(history=NAMES, read=st.booleans(), ends=st.booleans())
    def loop(self, history: str, read: bool, ends: bool) -> None:
        """Two steps, with all that the log has for workers in between; by chance two of `append` seldom belong together."""
        step = partial(self.append_turn, scope=SCOPES[0], text="1", history=history, looped=True, ends=ends)
        step(answered=False)
        for pending in self.run(self.log.pending()) if read else ():
            claim = self.taken(pending)
            self.sum_up(claim, 1)
            self.finish(claim, stored=True, part=len(claim.turns))
        step(answered=True)

    def note_answer(self, appended: Appended) -> None:
        """A turn has its answer: it is to be summed up once more, and read again if it is the session's newest."""
        turn_id, session = appended.turn_id, appended.session_id
        assert self.where[turn_id] in ("waiting", "extracted", "empty")
        later = [each for each in self.order if self.sessions[each] == session and each in self.kept]
        later = later[later.index(turn_id) :]
        if later == [turn_id]:
            self.where[turn_id] = "waiting"
        if turn_id not in self.open:
            self.open.update(later)
            self.ends.update(each for each in later if self.run(self.is_ended(each)))

    async def is_ended(self, turn_id: str) -> bool:
        sequence = self.log._digests.sequence(turn_id)
        assert sequence is not None
        return (await self.log._local.turns([sequence]))[sequence].ends

    def announce(self, session: str) -> None:
        unsummarised = [turn_id for turn_id in self.order if self.sessions[turn_id] == session and turn_id in self.open]
        self.ends.update(unsummarised[-1:])

    @rule(target=claims, data=st.data())
    def claim(self, data: st.DataObject) -> Claim:
        """All with one lease, as in a service; it is over after a long `wait`."""
        pending = self.run(self.log.pending())
        if not pending:
            return Claim(scope=SCOPES[0], session_id="none", token="none", turns=())
        return self.taken(data.draw(st.sampled_from(pending)))

    def taken(self, chosen: PendingSession) -> Claim:
        claim = self.run(self.log.claim(chosen.scope, chosen.session_id, lease=LEASE, context=2))
        assert claim is not None
        assert [self.where[turn.id] for turn in claim.turns] == ["waiting"] * chosen.waiting
        assert all(self.where[turn.id] != "waiting" for turn in claim.context)
        assert {self.scopes[turn.id] for turn in (*claim.turns, *claim.context)} <= {claim.scope}
        assert (claim.unsummarised, claim.ended) == (chosen.unsummarised, chosen.ended)
        self.tokens[claim.session_id] = claim.token
        return claim

    def current(self, claim: Claim) -> list[str]:
        """The claim's turns that it can still end, and the end of the claim."""
        if self.tokens.get(claim.session_id) != claim.token:
            return []
        return [turn.id for turn in claim.turns if self.where[turn.id] == "waiting"]

    @rule(claim=claims)
    def survive(self, claim: Claim) -> None:
        assert self.run(self.log.surviving(claim)) == set(self.current(claim))

    @rule(claim=claims, stored=st.booleans(), part=st.integers(1, 3))
    def finish(self, claim: Claim, stored: bool, part: int) -> None:
        named = [turn.id for turn in claim.turns[:part]]
        ended = [turn_id for turn_id in self.current(claim) if turn_id in named]
        self.run(self.log.finish(claim, dict.fromkeys(named, stored)))
        for turn_id in ended:
            self.where[turn_id] = "extracted" if stored else "empty"
        self.give_back(claim)

    @rule(claim=claims)
    def fail(self, claim: Claim) -> None:
        current = self.current(claim)
        dead = [turn.id for turn in claim.turns if turn.id in current and turn.attempts + 1 >= MAX_ATTEMPTS]
        counted = self.run(self.log.fail(claim, "error", retry_at=self.now_, max_attempts=MAX_ATTEMPTS))
        assert counted == len(dead)
        self.where.update(dict.fromkeys(dead, "dead"))
        self.give_back(claim)

    @rule(claim=consumes(claims))
    def release(self, claim: Claim) -> None:
        self.run(self.log.release(claim))
        self.give_back(claim)

    def give_back(self, claim: Claim) -> None:
        if self.tokens.get(claim.session_id) == claim.token:
            del self.tokens[claim.session_id]

    def note_silenced(self, scope: Scope) -> None:
        """What was said before in the session that the last turn asked not to remember is deleted."""
        deleted = self.run(self.log.tombstones(scope))
        for session in sorted(set(self.sessions.values()) - self.silenced):
            if deleted.silences(session):
                self.silenced.add(session)
                self.tokens.pop(session, None)
                for turn_id in [turn_id for turn_id, own in self.sessions.items() if own == session]:
                    self.delete(turn_id)

    @rule(scope=st.sampled_from(SCOPES), reach=st.sampled_from([Reach.ALL, Reach.EXACT]))
    def bury_scope(self, scope: Scope, reach: Reach) -> None:
        self.run(self.log.tombstone(Tombstone(scope=scope, at=self.now_, reach=reach)))
        for turn_id, own in self.scopes.items():
            if own.owner == scope.owner and (reach is Reach.ALL or own.project_id == scope.project_id):
                self.delete(turn_id)

    @rule(scope=st.sampled_from(SCOPES), data=st.data())
    def bury_memory(self, scope: Scope, data: st.DataObject) -> None:
        named = data.draw(st.lists(st.sampled_from([*self.where, "turn_x"]), max_size=3))
        self.run(self.log.tombstone(Tombstone(scope=scope, at=self.now_, memory_id="m"), turn_ids=named))
        for turn_id in named:
            if turn_id in self.scopes and self.scopes[turn_id].owner == scope.owner:
                self.delete(turn_id)

    @rule(claim=claims, limit=st.integers(1, 3))
    def sum_up(self, claim: Claim, limit: int) -> None:
        turns = self.run(self.log.session_turns(claim, limit=limit))
        kept = [each for each in self.order if self.sessions[each] == claim.session_id and each in self.kept]
        current = self.tokens.get(claim.session_id) == claim.token
        assert [turn.id for turn in turns] == (kept[-limit:] if current else [])
        assert [turn.state for turn in turns] == [self.where[turn.id] for turn in turns]
        if turns:
            last = turns[0].id
            self.run(self.log.mark_episode(claim, through=turns[0].sequence))
            self.open.difference_update(kept[: kept.index(last) + 1])

    @rule(scope=st.sampled_from(SCOPES), name=NAMES, data=st.data())
    def end_session(self, scope: Scope, name: str, data: st.DataObject) -> None:
        known = sorted({*self.sessions.values(), "unknown"})
        ended = self.run(self.log.end_session(scope, name or data.draw(st.sampled_from(known))))
        if ended is not None:
            assert ended.scope.owner == scope.owner
            self.announce(ended.session_id)
            assert (ended.unsummarised > 0) is ended.ended

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        named = set(data.draw(st.lists(st.sampled_from([*self.where, "turn_x"]), max_size=3)))
        dead = [turn_id for turn_id in named if self.where.get(turn_id) == "dead"]
        assert self.run(self.log.retry([*named])) == len(dead)
        self.where.update(dict.fromkeys(dead, "waiting"))

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        named = set(data.draw(st.lists(st.sampled_from([*self.where, "turn_x"]), max_size=3)))
        dropped = [turn_id for turn_id in named if self.where.get(turn_id) in {"dead", "waiting"}]
        assert self.run(self.log.drop([*named])) == len(dropped)
        for turn_id in dropped:
            self.delete(turn_id)

    @rule()
    def compact(self) -> None:
        self.run(self.log.compact())

    def delete(self, turn_id: str) -> None:
        self.kept.discard(turn_id)
        if self.where[turn_id] in {"waiting", "dead"}:
            self.where[turn_id] = "deleted"

    @rule()
    def sweep(self) -> None:
        self.run(self.log.sweep(finished_before=self.now_))
        self.kept &= {turn.id for turn in self.run(self.log.list_turns(scope=None, states=None, limit=10_000))}

    @rule(seconds=st.sampled_from([1, 60]))
    def wait(self, seconds: int) -> None:
        self.now_ += timedelta(seconds=seconds)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.opened()
        self.tokens.clear()

    @rule()
    def kill(self) -> None:
        """The files as they are at this moment are what a killed process leaves."""
        self.generation += 1
        left = self.directory.with_name(f"{self.directory.name}-{self.generation}")
        shutil.copytree(self.directory, left)
        self.log.close()
        shutil.rmtree(self.directory)
        self.directory = left
        self.log = self.opened()
        self.tokens.clear()

    @invariant()
    def every_turn_is_accounted_for(self) -> None:
        places = list(self.where.values())
        assert self.run(self.log.totals()) == TurnTotals(
            accepted=len(places),
            extracted=places.count("extracted"),
            empty=places.count("empty"),
            dead_lettered=places.count("dead"),
            deleted=places.count("deleted"),
            waiting=places.count("waiting"),
        )

    @invariant()
    def every_session_is_pending_as_long_as_there_is_something_to_do(self) -> None:
        expected = dict[str, tuple[int, int, bool]]()
        for session in {self.sessions[turn_id] for turn_id in self.kept} - self.tokens.keys():
            turns = {turn_id for turn_id in self.kept if self.sessions[turn_id] == session}
            waiting = sum(self.where[turn_id] == "waiting" for turn_id in turns)
            if waiting or turns & self.open:
                ended = bool(turns & self.open & self.ends)
                expected[session] = (waiting, len(turns & self.open), ended)
        pending = {
            each.session_id: (each.waiting, each.unsummarised, each.ended) for each in self.run(self.log.pending())
        }
        leased = self.tokens.keys() & pending.keys()
        assert {session: pending[session] for session in pending.keys() - leased} == expected


TurnLogMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=30)
TestTotals = TurnLogMachine.TestCase
