"""Whatever happens to the turn log, in whatever order, every accepted turn is accounted for."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from semrouter_memory.model import (
    AppendOutcome,
    Claim,
    Reach,
    Scope,
    SessionHints,
    Tombstone,
    Turn,
    TurnTotals,
)
from semrouter_memory.sessions.sqlite import SqliteTurnLog

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
        self.log = self.open()
        self.where: dict[str, str] = {}
        self.scopes: dict[str, Scope] = {}
        self.tokens: dict[str, str] = {}

    def now(self) -> datetime:
        return self.now_

    def open(self) -> SqliteTurnLog:
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
        remember=st.booleans(),
    )
    def append(
        self,
        scope: Scope,
        text: str,
        session: str,
        conversation: str,
        before: str,
        history: str,
        transcript: str,
        response: str,
        request: str,
        retry: str,
        complete: bool,
        remember: bool,
    ) -> None:
        turn = Turn(
            scope=scope,
            hints=SessionHints(
                explicit=session, conversation_id=conversation, previous_response_id=before, history_hash=history
            ),
            user_texts=(text,) if text else (),
            assistant_text="fine",
            observed_at=self.now_,
            request_id=request,
            retry_of=retry,
            response_id=response,
            transcript_hashes=(transcript,) if transcript else (),
            complete=complete,
        )
        appended = self.log.append(turn, remember=remember)
        if appended.outcome is AppendOutcome.ACCEPTED:
            assert appended.turn_id not in self.where
            self.where[appended.turn_id] = "waiting"
            self.scopes[appended.turn_id] = scope
        elif appended.outcome is AppendOutcome.DUPLICATE:
            assert self.where[appended.turn_id] != "deleted"

    @rule(target=claims, lease=st.sampled_from([timedelta(0), LEASE]), data=st.data())
    def claim(self, lease: timedelta, data: st.DataObject) -> Claim:
        pending = self.run(self.log.pending())
        if not pending:
            return Claim(scope=SCOPES[0], session_id="none", token="none", turns=())
        chosen = data.draw(st.sampled_from(pending))
        claim = self.run(self.log.claim(chosen.scope, chosen.session_id, lease=lease, context=2))
        assert claim is not None
        assert [self.where[turn.id] for turn in claim.turns] == ["waiting"] * chosen.waiting
        assert all(self.where[turn.id] != "waiting" for turn in claim.context)
        assert {self.scopes[turn.id] for turn in (*claim.turns, *claim.context)} == {claim.scope}
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

    @rule(scope=st.sampled_from(SCOPES), reach=st.sampled_from([Reach.ALL, Reach.EXACT]))
    def bury_scope(self, scope: Scope, reach: Reach) -> None:
        self.run(self.log.bury(Tombstone(scope=scope, at=self.now_, reach=reach)))
        for turn_id, own in self.scopes.items():
            if own.user_id == scope.user_id and (reach is Reach.ALL or own.project_id == scope.project_id):
                self.delete(turn_id)

    @rule(scope=st.sampled_from(SCOPES), data=st.data())
    def bury_memory(self, scope: Scope, data: st.DataObject) -> None:
        named = data.draw(st.lists(st.sampled_from([*self.where, "turn_x"]), max_size=3))
        self.run(self.log.bury(Tombstone(scope=scope, at=self.now_, memory_id="m"), turn_ids=named))
        for turn_id in named:
            if turn_id in self.scopes and self.scopes[turn_id].user_id == scope.user_id:
                self.delete(turn_id)

    def delete(self, turn_id: str) -> None:
        if self.where[turn_id] in {"waiting", "dead"}:
            self.where[turn_id] = "deleted"

    @rule()
    def sweep(self) -> None:
        self.run(self.log.sweep(finished_before=self.now_))

    @rule(seconds=st.sampled_from([1, 60]))
    def wait(self, seconds: int) -> None:
        self.now_ += timedelta(seconds=seconds)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.open()
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
        self.log = self.open()
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


TurnLogMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestTotals = TurnLogMachine.TestCase
