"""What the rules find, and what they must know of the turns before."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from semrouter_memory.model import MemoryType


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing a user said about themselves, in the third person."""

    content: str
    type: MemoryType = MemoryType.SEMANTIC


@dataclass(frozen=True, slots=True)
class Scene:
    """What the session's earlier words set up.

    Attributes:
        fiction: a game or role-play is on; nothing said in it is about the user.
        people: whom a pronoun stands for, for example `she` -> "User's mother".
    """

    fiction: bool = False
    people: Mapping[str, str] = field(default_factory=dict)
