"""Hears what a store says of itself."""

from typing import cast

from semrouter_memory.ports import Observer


class StoreObserver:
    """Implements the part of `Observer` that a store talks to."""

    def __init__(self) -> None:
        self.states: list[tuple[bool, str]] = []
        self.failures: list[tuple[str, BaseException]] = []

    def store_state_changed(self, *, available: bool, detail: str) -> None:
        self.states.append((available, detail))

    def store_failed(self, operation: str, error: BaseException) -> None:
        self.failures.append((operation, error))

    def port(self) -> Observer:
        return cast("Observer", self)
