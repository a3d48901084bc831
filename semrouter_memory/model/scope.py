"""Who and what: scopes, types, messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector: TypeAlias = npt.NDArray[np.float32]
    """One L2-normalised embedding, shape (dimension,)."""
else:
    Vector = Any  # numpy takes a tenth of a second to load, and commands hold no vectors

Json: TypeAlias = Any
"""Parsed JSON: dict, list, str, int, float, bool or None."""


class OwnerKind(StrEnum):
    """What may own memories."""

    USER = "user"
    ORGANISATION = "org"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory an operation is about. Every store and session call takes one.

    `project_id` "" is the owner's own space, without a project. Owners of different kinds never meet, whatever their ids.
    """

    owner_id: str
    project_id: str = ""
    kind: OwnerKind = OwnerKind.USER

    @classmethod
    def of_owner(cls, owner: str, project_id: str = "") -> "Scope":
        """The scope with this `owner`.

        Raises:
            ValueError: it does not begin with a kind of owners.
        """
        kind, colon, owner_id = owner.partition(":")
        if not colon:
            raise ValueError("an owner is a kind, a colon and an id")
        return cls(owner_id, project_id, OwnerKind(kind))

    @property
    def owner(self) -> str:
        """The partition that isolates this owner's rows, for example `user:alice`."""
        return f"{self.kind}:{self.owner_id}"

    def in_project(self, project_id: str) -> "Scope":
        """The same owner's scope in a project; "" is the owner's own space."""
        return Scope(self.owner_id, project_id, self.kind)


class Reach(StrEnum):
    """Which of the owner's projects an operation touches, relative to its scope."""

    RECALL = "recall"
    """The scope's project and the user's own space; without a project only the latter."""
    EXACT = "exact"
    """Only the scope's project ("" = only the user's own space)."""
    ALL = "all"
    """Every project of the owner."""


class MemoryType(StrEnum):
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    EPISODIC = "episodic"
    REFLECTIVE = "reflective"


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, reduced to its text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that an agent called on the way to its answer.

    Attributes:
        name: the tool's name.
        outcome: the beginning of what it returned; "" when the result was not seen.
    """

    name: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a prompt that we send to an external model."""

    role: str
    content: str


def joined(texts: Sequence[str]) -> str:
    """Several messages of one turn as one text."""
    return "\n".join(text for text in texts if text)
