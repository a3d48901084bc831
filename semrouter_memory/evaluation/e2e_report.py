"""What `eval e2e` prints and writes: figures by kind, where misses were lost, and the misses themselves."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.evaluation.e2e import JudgedQuestion, MissStage
from semrouter_memory.model import Json

_WANTING = "all that want memory"
_NOT_WANTING = "all that want none"
_COLUMNS = ("questions", "answered", "coverage", "misled", "quiet", "tokens")


def figures_of(judged: Sequence[JudgedQuestion]) -> dict[str, Json]:
    """The figures of one file, as they are written: by kind and of all, and every question's verdict."""
    groups = {**_by_kind(judged), **_totals(judged)}
    return {
        "kinds": {name: _figures(group) for name, group in groups.items()},
        "lost": {lost.value: count for lost, count in _lost(judged).items()},
        "questions": [
            {
                "user": each.user,
                "id": each.question.id,
                "kind": each.question.kind,
                "score": each.score,
                "misled": each.misled,
                "lost": each.lost.value if each.lost else None,
                "injected": each.injected,
                "tokens": each.tokens,
            }
            for each in judged
        ],
    }


def print_figures(console: Console, file: str, judged: Sequence[JudgedQuestion], *, memories: int) -> None:
    """One file's table, where its misses were lost, and what failed."""
    table = Table(title=Text(f"{file}: {memories} memories"), title_justify="left")
    table.add_column("kind")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for name, group in _by_kind(judged).items():
        _add(table, name, group)
    table.add_section()
    for name, group in _totals(judged).items():
        _add(table, name, group)
    console.print(table)
    lost = _lost(judged)
    console.print(f"lost: {', '.join(f'{name} {lost[name]}' for name in MissStage)}")
    if failed := Counter(each.failed for each in judged if each.failed):
        reasons = ", ".join(f"{reason}: {count}" for reason, count in failed.items())
        console.print(f"[red]Failed, and counted as nothing injected: {reasons}[/red]")


def print_misses(console: Console, judged: Sequence[JudgedQuestion]) -> None:
    """Every question that was missed, misled or answered where nothing was wanted."""
    table = Table(title="misses", title_justify="left", show_lines=True)
    for name in ("question", "text", "wanted", "lost", "injected"):
        table.add_column(name, overflow="fold")
    for each in judged:
        unwanted = bool(each.injected) and not each.question.wants_memory
        if each.lost or each.misled or unwanted:
            question = each.question
            wanted = question.answer or " | ".join(question.any_of) or "nothing"
            verdict = "misled" if each.misled else each.lost or "false injection"
            cells = (f"{each.user} {question.id}\n{question.kind}", question.text, wanted, verdict, each.injected)
            table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _by_kind(judged: Sequence[JudgedQuestion]) -> dict[str, list[JudgedQuestion]]:
    kinds = sorted({each.question.kind for each in judged})
    return {kind: [each for each in judged if each.question.kind == kind] for kind in kinds}


def _totals(judged: Sequence[JudgedQuestion]) -> dict[str, list[JudgedQuestion]]:
    wanting = [each for each in judged if each.question.wants_memory]
    others = [each for each in judged if not each.question.wants_memory]
    return {name: group for name, group in ((_WANTING, wanting), (_NOT_WANTING, others)) if group}


def _figures(group: Sequence[JudgedQuestion]) -> dict[str, float | None]:
    """Shares and means; None where there is nothing to count."""
    matched = [each.score for each in group if each.question.any_of]
    covered = [each.score for each in group if each.question.answer]
    unwanting = [each.score for each in group if not each.question.wants_memory]
    return {
        "questions": len(group),
        "answered": fmean(matched) if matched else None,
        "coverage": fmean(covered) if covered else None,
        "misled": fmean(each.misled for each in group),
        "quiet": fmean(unwanting) if unwanting else None,
        "tokens": fmean(each.tokens for each in group),
    }


def _add(table: Table, name: str, group: Sequence[JudgedQuestion]) -> None:
    figures = _figures(group)
    shares = (figures[column] for column in _COLUMNS[1:-1])
    cells = ("-" if share is None else f"{share:.2f}" for share in shares)
    table.add_row(Text(name), str(len(group)), *cells, f"{figures['tokens']:.0f}")


def _lost(judged: Sequence[JudgedQuestion]) -> Counter[MissStage]:
    return Counter(each.lost for each in judged if each.lost)
