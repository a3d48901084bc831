"""What was decided at the first step of an agent's tool loop, for its later steps: the block must not change between them.

A provider's prompt cache ends at the first byte that differs, and a model whose context changes in mid-task is confused.
"""

import asyncio
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import TTLCache

from semrouter_memory.model import RecallOptions, RecallRequest, Scope

_Value = TypeVar("_Value")

_MAX_TURNS = 1_000
_MAX_AGE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class TurnKey:
    """One user turn, asked with certain settings: other settings make another decision."""

    scope: Scope
    loop_key: str
    options: RecallOptions


class ToolLoopCache(Generic[_Value]):
    """The decisions of one kind for the last turns, bounded in number and age."""

    def __init__(self) -> None:
        self._values: TTLCache[TurnKey, _Value] = TTLCache(_MAX_TURNS, _MAX_AGE_SECONDS, timer=_now)

    def put(self, request: RecallRequest, value: _Value) -> None:
        if request.loop_key:
            self._values[_key(request)] = value

    def get(self, request: RecallRequest) -> _Value | None:
        """The decision of the turn's earlier step; None for a first step, and when the earlier one is too old."""
        return self._values.get(_key(request)) if request.continues_loop and request.loop_key else None


def _key(request: RecallRequest) -> TurnKey:
    return TurnKey(request.scope, request.loop_key, request.options)


def _now() -> float:
    return asyncio.get_running_loop().time()
