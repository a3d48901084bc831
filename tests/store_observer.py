"""Hears what a store says of itself."""

from semrouter_memory.events import Event, StoreFailed, StoreStateChanged


class StoreObserver:
    """Keeps the events of a store."""

    def __init__(self) -> None:
        self.states: list[tuple[bool, str]] = []
        self.failures: list[tuple[str, BaseException]] = []

    def observe(self, event: Event) -> None:
        match event:
            case StoreStateChanged(available=available, detail=detail):
                self.states.append((available, detail))
            case StoreFailed(operation, error):
                self.failures.append((operation, error))
            case _:
                pass
