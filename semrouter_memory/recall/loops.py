"""What the first step of an agent's tool loop recalled, for the later steps: the block stays the same. Pure.

A provider's prompt cache ends at the first byte that differs, and a model whose context changes in mid-task is confused.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from semrouter_memory.model import Hit, Reason, RecallOptions, Scope

_Value = TypeVar("_Value")

MAX_TURNS = 1_000
MAX_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class TurnKey:
    """One user turn, asked for with certain settings: other settings are another choice."""

    scope: Scope
    loop_key: str
    options: RecallOptions


@dataclass(frozen=True, slots=True)
class Choice:
    """How a turn's recall ended: the hits that were rendered, or why there were none."""

    reason: Reason
    hits: tuple[Hit, ...] = ()
    ranking: tuple[Hit, ...] = ()


class TurnChoices(Generic[_Value]):
    """The last turns' choices of one kind, bounded in number and age."""

    def __init__(self) -> None:
        self._choices: OrderedDict[TurnKey, tuple[datetime, _Value]] = OrderedDict()

    def keep(self, key: TurnKey, choice: _Value, now: datetime) -> None:
        self._choices[key] = (now, choice)
        self._choices.move_to_end(key)
        while len(self._choices) > MAX_TURNS or self._is_old(next(iter(self._choices.values()))[0], now):
            self._choices.popitem(last=False)

    def find(self, key: TurnKey, now: datetime) -> _Value | None:
        """The turn's choice; None when there is none that is recent enough."""
        kept = self._choices.get(key)
        return kept[1] if kept is not None and not self._is_old(kept[0], now) else None

    @staticmethod
    def _is_old(kept_at: datetime, now: datetime) -> bool:
        # A choice from the future was kept before the clock was set back.
        return abs(now - kept_at) > MAX_AGE
