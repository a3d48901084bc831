"""Accepts turns: removes what must not be stored, and commits them to the turn log.

Strategy. An ordinary turn is cleaned and committed at once, by the caller. Cleaning a long turn takes a quarter of a second,
too long for the event loop: it runs in a thread, and the commit follows on the loop, one turn after the other. A turn of an
owner with such turns waits behind them, so that the order stays.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from semrouter_memory.codec.base import strip_block
from semrouter_memory.errors import TurnLogError
from semrouter_memory.events import SecretsRedacted, TurnAppended, TurnDropped
from semrouter_memory.model import Appended, AppendOutcome, Json, SessionKey, Turn
from semrouter_memory.ports import Observer, TurnLog
from semrouter_memory.retain.directives import asks_to_remember
from semrouter_memory.retain.redact import Redaction, SecretKind, redact
from semrouter_memory.retain.steering import pauses

_MARGIN_CHARS = 4096
"""Read beyond the limit, so that a secret at the limit is recognised as a whole."""
_NAMES = frozenset({"id", "call_id", "encrypted_content"})
"""Random values; long ones would be mistaken for API keys."""
_AT_ONCE_CHARS = 4_096
"""The largest turn that is cleaned at once: about 20 ms."""
_MAX_LATER = 256
"""Turns that wait for the thread; more are cleaned at once, so that memory stays bounded."""


@dataclass(frozen=True, slots=True)
class CleanTurn:
    """A turn as it may be written.

    Attributes:
        redacted: one kind for each secret that was taken out.
        remember: whether it asks to remember something.
    """

    turn: Turn
    redacted: Sequence[SecretKind]
    remember: bool


class TurnIntake:
    """Accepts turns.

    Args:
        max_chars: bound on each text.
        wake: called with each session that has a new turn.
    """

    def __init__(
        self, turn_log: TurnLog, observer: Observer, *, max_chars: int, wake: Callable[[SessionKey], object]
    ) -> None:
        self._turn_log = turn_log
        self._observer = observer
        self._max_chars = max_chars
        self._wake = wake
        self._later: dict[asyncio.Task[None], tuple[str, str]] = {}
        self._one_at_a_time = asyncio.Lock()

    def accept(self, turn: Turn) -> Appended | None:
        """Commit a turn, quickly. Never raises.

        Returns:
            The outcome; None when the turn is written later, or could not be written, which the observer is told.
        """
        owner = (turn.scope.owner, turn.scope.project_id)
        if len(self._later) < _MAX_LATER and (owner in self._later.values() or _size(turn) > _AT_ONCE_CHARS):
            task = asyncio.create_task(self._accept_later(turn), name="accept")
            self._later[task] = owner
            task.add_done_callback(self._later.pop)
            return None
        try:
            return self._commit(cleaned(turn, max_chars=self._max_chars))
        except Exception as error:  # noqa: BLE001 - the exchange that ends here must end well
            self._dropped(error)
            return None

    async def settle(self) -> None:
        """Return when all turns that were accepted so far are written."""
        while self._later:
            await asyncio.wait(set(self._later))

    async def _accept_later(self, turn: Turn) -> None:
        try:
            # Who waits for the lock gets it in order.
            async with self._one_at_a_time:
                self._commit(await asyncio.to_thread(cleaned, turn, max_chars=self._max_chars))
        except Exception as error:  # noqa: BLE001 - no caller waits for this turn; the observer is told
            self._dropped(error)

    def _commit(self, clean: CleanTurn) -> Appended:
        appended = self._turn_log.append(clean.turn, remember=clean.remember)
        self._observer.observe(TurnAppended(appended))
        if clean.redacted and appended.outcome is not AppendOutcome.DUPLICATE:
            self._observer.observe(SecretsRedacted(clean.redacted))
        if appended.outcome is AppendOutcome.ACCEPTED and appended.session_id:
            self._wake(SessionKey(clean.turn.scope, appended.session_id))
        return appended

    def _dropped(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, TurnLogError) else "internal_error"
        self._observer.observe(TurnDropped(reason))


def cleaned(turn: Turn, *, max_chars: int) -> CleanTurn:
    """The turn without our injected block and without secrets, its texts cut to `max_chars` each."""
    users = [_clean(text, max_chars) for text in turn.user_texts]
    answer = _clean(turn.assistant_text, max_chars)
    outcomes = [_clean(tool.outcome, max_chars) for tool in turn.tools]
    # Most texts of the items are the turn's own: what was clean there is not read again.
    clean = {
        text
        for text, left in zip((*turn.user_texts, turn.assistant_text), (*users, answer), strict=True)
        if text == left.text
    }
    new = replace(
        turn,
        pauses_session=any(map(pauses, turn.user_texts)),
        user_texts=tuple(user.text for user in users),
        assistant_text=answer.text,
        tools=tuple(replace(tool, outcome=left.text) for tool, left in zip(turn.tools, outcomes, strict=True)),
        # Stored whole or not at all: a rebuilt chain repeats the conversation word for word.
        items=turn.items if all(text in clean or not redact(text).kinds for text in _texts(turn.items)) else None,
    )
    return CleanTurn(
        new,
        redacted=tuple(kind for left in (*users, answer, *outcomes) for kind in left.kinds),
        remember=any(map(asks_to_remember, new.user_texts)),
    )


def _size(turn: Turn) -> int:
    """Characters to read, about; items repeat what the turn says."""
    return (
        sum(map(len, turn.user_texts))
        + len(turn.assistant_text)
        + sum(len(tool.outcome) for tool in turn.tools)
        + sum(map(len, _texts(turn.items))) // 2
    )


def _texts(value: Json) -> Iterator[str]:
    """Every text in items, but for what names or seals them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NAMES:
                yield from _texts(item)


def _clean(text: str, max_chars: int) -> Redaction:
    left = redact(strip_block(text)[: max_chars + _MARGIN_CHARS])
    return replace(left, text=left.text[:max_chars])
