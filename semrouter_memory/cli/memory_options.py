"""Options and arguments of `semrouter-memory memory`: those that several commands take."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import given
from semrouter_memory.model import Json, MemoryType

MemoryId = Annotated[str, typer.Argument(help="The memory's id.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")]
Project = Annotated[str | None, typer.Option("--project", help='Its project; "" is the user\'s own space.')]
Since = Annotated[
    str | None, typer.Option(help="Only what was said from then on: 2027-01-01, or a time with its offset.")
]
Until = Annotated[str | None, typer.Option(help="Only what was said before that time; of a date, up to its end.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", help="Only memories with all of this: category=work,metadata.team=core,min_importance=0.5."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """Which memories are meant, by the names of the API."""

    types: Types = None
    project_id: Project = None
    since: Since = None
    until: Until = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFields:
    """What a caller says of a memory, by the names of the API."""

    goal: Annotated[str | None, typer.Option(help="What was to be done; of an episode.")] = None
    steps: Annotated[list[str] | None, typer.Option("--step", help="A step of an episode; may be repeated.")] = None
    outcome: Annotated[str | None, typer.Option(help="How an episode ended.")] = None
    lessons: Annotated[list[str] | None, typer.Option("--lesson", help="What to do next time; may be repeated.")] = None
    type: Annotated[MemoryType | None, typer.Option("--type", help="Its type.")] = None
    project_id: Project = None
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="0 (trivia) to 1 (vital).")] = None
    category: Annotated[str | None, typer.Option(help='A category of your own; "": none.')] = None
    metadata: Annotated[str | None, typer.Option(help="A JSON object to store with the statement.")] = None
    expires_at: Annotated[str | None, typer.Option(help="From when on it is not recalled: 2027-01-01T00:00:00Z.")] = (
        None
    )

    def given(self) -> dict[str, Json]:
        """Those that were given. Raises: InvalidRequestError: the metadata is no JSON object."""
        metadata = None if self.metadata is None else _object(self.metadata)
        return given({**asdict(self), "metadata": metadata})

    @property
    def is_episode(self) -> bool:
        """Whether a part of an episode was given."""
        return bool(self.steps or self.lessons) or self.goal is not None or self.outcome is not None


def _object(text: str) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequestError("--metadata must be a JSON object")
    return value
