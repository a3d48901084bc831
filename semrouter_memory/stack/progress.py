"""What takes seconds is shown while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text


@contextmanager
def steps(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a step as it begins; on a terminal the elapsed time runs below it until the next."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def say(step: str) -> None:
            for task in progress.task_ids:
                progress.remove_task(task)
            console.print(Text(f"==> {step}", style="dim"), soft_wrap=True)
            progress.add_task("working", total=None)

        yield say
