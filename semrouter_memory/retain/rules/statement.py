"""What the rules find, and what they must know of the turns before."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from semrouter_memory.model import MemoryType
from semrouter_memory.retain.rules.asides import Aside


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
        aside: a supposition or texts in work that may go on, and for how many turns.
        topic: what the user's own request is about ("the Japan trip"), and for how many turns that holds.
        asked: the kind of thing that the last answer asked the user ("budget"), "" when none.
        answered: an answer was given before.
        stated: the last statement that a date, a time or a sum is part of; a correction is about it.
        drafting: turns for which a text that was asked for is what "shorter" is about.
    """

    fiction: bool = False
    people: Mapping[str, str] = field(default_factory=dict)
    aside: Aside = Aside.NONE
    aside_turns: int = 0
    topic: str = ""
    topic_turns: int = 0
    asked: str = ""
    answered: bool = False
    stated: str = ""
    drafting: int = 0
