"""What the suites of the turn log work with: a clock, turns, and short ways to append and to claim them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from semrouter_memory.model import Appended, AppendOutcome, Claim, Scope, SessionHints, ToolUse, Turn
from semrouter_memory.ports import TurnLog
from semrouter_memory.turn_log.redis_log import RedisTurnLog

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALICE = Scope("alice")
BOB = Scope("bob")
LEASE = timedelta(seconds=60)

WholeTurnLog: TypeAlias = TurnLog
"""What the suites run over: everything that an adapter offers."""


@dataclass
class SteppedClock:
    moment: datetime = START

    def now(self) -> datetime:
        return self.moment

    def step(self, seconds: float) -> datetime:
        self.moment += timedelta(seconds=seconds)
        return self.moment


def a_turn(
    *texts: str,
    scope: Scope = ALICE,
    at: datetime = START,
    answer: str = "fine",
    history: str = "",
    before: str = "",
    conversation: str = "",
    session: str = "",
    transcripts: tuple[str, ...] = (),
    response: str = "",
    request: str = "",
    retry: str = "",
    tools: tuple[ToolUse, ...] = (),
    agent: str = "",
    complete: bool = True,
    looped: bool = False,
) -> Turn:
    return Turn(
        scope=scope,
        hints=SessionHints(
            explicit=session, conversation_id=conversation, previous_response_id=before, history_hash=history
        ),
        user_texts=texts,
        assistant_text=answer if complete else "",
        observed_at=at,
        request_id=request,
        retry_of=retry,
        response_id=response,
        model="m",
        transcript_hashes=transcripts,
        tools=tools,
        agent=agent,
        complete=complete,
        looped=looped,
    )


async def append(log: WholeTurnLog, turn: Turn, *, remember: bool = False) -> Appended:
    """Append a turn, and wait until its session is known and repetitions are found."""
    appended = log.append(turn, remember=remember)
    if not isinstance(log, RedisTurnLog):
        return appended
    # The last one, when others were spooled before.
    *_, resolved = await log.forward()
    return resolved


async def accept(log: WholeTurnLog, turn: Turn, *, remember: bool = False) -> str:
    """Append a turn that must be accepted; returns its session."""
    appended = await append(log, turn, remember=remember)
    assert appended.outcome is AppendOutcome.ACCEPTED
    return appended.session_id


async def outcome(log: WholeTurnLog, turn: Turn) -> AppendOutcome:
    return (await append(log, turn)).outcome


async def claimed(log: WholeTurnLog, session: str, scope: Scope = ALICE, *, context: int = 5) -> Claim:
    claim = await log.claim(scope, session, lease=LEASE, context=context)
    assert claim is not None
    return claim


async def texts_waiting(log: WholeTurnLog) -> list[str]:
    claims = [await claimed(log, pending.session_id, pending.scope) for pending in await log.pending()]
    return [turn.user_text for claim in claims for turn in claim.turns]
