"""Options and arguments of `semrouter-memory memory`, those that several commands take."""

from typing import Annotated

import typer

from semrouter_memory.model import MemoryType

Type = Annotated[MemoryType | None, typer.Option("--type", help="Its type.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")]
Project = Annotated[str | None, typer.Option("--project", help='Its project; "" is the user\'s own space.')]
Importance = Annotated[float | None, typer.Option(min=0, max=1, help="0 (trivia) to 1 (vital).")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object to store with the statement.")]
Expires = Annotated[str | None, typer.Option(help="From when on it is not recalled: 2027-01-01T00:00:00Z.")]
Since = Annotated[
    str | None, typer.Option(help="Only what was said from then on: 2027-01-01, or a time with its offset.")
]
Until = Annotated[str | None, typer.Option(help="Only what was said before that time; of a date, up to its end.")]
Goal = Annotated[str | None, typer.Option(help="What was to be done; of an episode.")]
Steps = Annotated[list[str] | None, typer.Option("--step", help="A step of an episode; may be repeated.")]
Outcome = Annotated[str | None, typer.Option(help="How an episode ended.")]
Lessons = Annotated[list[str] | None, typer.Option("--lesson", help="What to do next time; may be repeated.")]
Category = Annotated[str | None, typer.Option(help='A category of your own; "": none.')]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", help="Only memories with all of this: category=work,metadata.team=core,min_importance=0.5."
    ),
]
MemoryId = Annotated[str, typer.Argument(help="The memory's id.")]
