"""A run shows and writes down what it measured, and only that; what failed is said and the rest goes on."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import run
from bench.client import BenchError
from bench.context import Amount
from bench.figures import Ratio, goals, missed
from bench.tables import tables_of
from semrouter_memory.errors import ConfigurationError

from .figures import EVERYTHING, HEADLINE, RECALL, THROUGHPUT, chain, times

AMOUNT = Amount(requests=20, memories=10, quick=True, lite=(), server=())


def options(directory: Path, model: Path, *only: str) -> run.Options:
    return run.Options(
        model=model,
        directory=directory / "work",
        amount=AMOUNT,
        only=only,
        json_file=directory / "out" / "bench.json",
        plot_file=directory / "out" / "bench.png",
    )


def sections(**failing: Exception) -> Mapping[str, Any]:
    """The sections without the measuring."""

    def section(name: str) -> Any:
        async def measured(_: object) -> Any:
            if name in failing:
                raise failing[name]
            return EVERYTHING[name]

        return measured

    return {name: section(name) for name in run.SECTIONS}


async def test_a_section_that_fails_is_named_and_the_others_are_measured(
    tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "SECTIONS", sections(streams=BenchError("no tokens")))
    asked = options(tmp_path, model_directory, "headline", "streams", "throughput")

    assert not await run.bench(asked)

    written = json.loads(asked.json_file.read_text())
    assert list(written["sections"]) == ["headline", "throughput"]
    assert written["failed"] == {"streams": "BenchError: no tokens"}
    assert written["sections"]["headline"]["users"]["1000"]["paced"]["active"]["median"] == 1.25
    assert "streams was not measured: BenchError: no tokens" in capsys.readouterr().out
    assert asked.plot_file is not None
    assert asked.plot_file.read_bytes().startswith(b"\x89PNG")


async def test_a_run_in_which_all_was_measured_says_so(
    tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SECTIONS", sections())

    assert await run.bench(replace(options(tmp_path, model_directory), plot_file=None))


def test_sections_are_chosen_by_name_and_kept_in_order() -> None:
    assert run.chosen(["streams", "headline"], quick=False) == ["headline", "streams"]
    assert run.chosen([], quick=True) == list(run.QUICK)
    assert run.chosen([], quick=False) == list(run.SECTIONS)
    with pytest.raises(ConfigurationError, match="no section speed"):
        run.chosen(["speed"], quick=False)


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_section_has_tables(name: str) -> None:
    console = Console(width=200)
    with console.capture() as shown:
        for table in tables_of(EVERYTHING[name]):
            console.print(table)

    assert shown.get().count("\n") > 4


def test_a_picture_is_drawn_of_whatever_was_measured(tmp_path: Path) -> None:
    from bench import plot  # loads matplotlib, which would take each worker a second

    assert plot.draw(tmp_path / "all.png", EVERYTHING, "all")
    assert not plot.draw(tmp_path / "none.png", {"recall": RECALL}, "nothing to draw")
    assert [file.name for file in tmp_path.iterdir()] == ["all.png"]


def test_figures_that_reach_all_goals_miss_none() -> None:
    assert missed(EVERYTHING) == []
    assert goals({"streams": EVERYTHING["streams"]}) == {}


def test_what_is_missed_is_named_and_times_are_compared_with_the_embedding_of_the_same_run() -> None:
    slow = replace(HEADLINE.main, paced=replace(HEADLINE.main.paced, active=Ratio(1.31, 1.3, 1.4)))
    headline = replace(HEADLINE, users={**HEADLINE.users, HEADLINE.memories: slow})
    throughput = replace(
        THROUGHPUT,
        share=Ratio(0.69, 0.6, 0.7),
        chains={**THROUGHPUT.chains, "product": chain(9.0, with_memory=0.5)},
    )
    recall = replace(RECALL, active={**RECALL.active, 1_000: times(3.8), 10_000: times(7.6)})

    assert missed({"headline": headline, "throughput": throughput, "recall": recall}) == [
        "at most 1.3 x the floor, active user, with pauses",
        "at least 70% of the throughput that the floor allows",
        "memories in at least 80% of the requests, many at a time",
        "recall with 1,000 memories",
        "recall with 10,000 memories",
    ]
