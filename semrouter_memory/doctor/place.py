"""A message with its place in the YAML, so that whatever is found can say where it stands. Pure.

Strategy: checks walk from place to place by field names; the path grows with them. What a `typed_config` holds was opened
when the file was read and is looked up by its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Opened:
    """What stands in an `Any`.

    Attributes:
        type: the message's full name, without the part before the slash.
        message: None for a type that is not known here.
    """

    type: str
    message: Any


@dataclass(frozen=True, slots=True)
class At:
    """A message and where it stands.

    Attributes:
        type: of what was opened, its full name; else "".
    """

    message: Any
    path: str
    opened_at: Mapping[str, Opened] = field(repr=False)
    type: str = ""

    def value(self, name: str) -> Any:
        """A field's value; None when it is a message or an optional that is not there, or in a type unknown here."""
        return getattr(self.message, name, None)

    def where(self, name: str) -> str:
        """The path of a field, there or not."""
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str) -> "At | None":
        """A message field, when it is there."""
        value = self.value(name)
        return None if value is None else At(value, self.where(name), self.opened_at)

    def all(self, name: str) -> list["At"]:
        """The messages of a repeated field."""
        items = self.value(name) or []
        return [At(item, f"{self.where(name)}[{index}]", self.opened_at) for index, item in enumerate(items)]

    def entries(self, name: str) -> list["At"]:
        """The messages of a map."""
        items = (self.value(name) or {}).items()
        return [At(item, keyed(self.where(name), str(key)), self.opened_at) for key, item in items]

    def opened(self, name: str) -> "At | None":
        """What stands in an `Any` field."""
        return self._open(self.where(name))

    def opened_map(self, name: str) -> dict[str, "At"]:
        """What stands in a map of `Any`, by key."""
        found = {str(key): self._open(keyed(self.where(name), str(key))) for key in self.value(name) or {}}
        return {key: at for key, at in found.items() if at is not None}

    def descend(self, *names: str) -> "At | None":
        """A message several fields down, when all are there."""
        at: At | None = self
        for name in names:
            at = at.get(name) if at is not None else None
        return at

    def is_a(self, name: str) -> bool:
        """Whether this is the message of that name, whatever its package's version."""
        return self.type.rpartition(".")[2] == name

    def _open(self, path: str) -> "At | None":
        opened = self.opened_at.get(path)
        return None if opened is None else At(opened.message, path, self.opened_at, opened.type)


def keyed(path: str, key: str) -> str:
    """The path of a map's entry; keys hold dots."""
    return f'{path}["{key}"]'
