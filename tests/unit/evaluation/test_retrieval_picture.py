"""The picture of `eval retrieval`."""

import sys
from pathlib import Path

import pytest

from semrouter_memory.config import Config
from semrouter_memory.errors import ConfigurationError, InputFileError
from semrouter_memory.evaluation.cases import write_file
from semrouter_memory.evaluation.retrieval import (
    Asked,
    LabelledQuery,
    Scored,
    Swept,
    injected_figures,
    picture,
    scores_of,
)
from semrouter_memory.evaluation.retrieval_run import evaluate
from semrouter_memory.evaluation.running import EvalOptions

PNG = b"\x89PNG\r\n\x1a\n"
FOUND = Asked(
    query=LabelledQuery(id="q", kind="direct", text="?", gold=frozenset("a"), acceptable=frozenset("b")),
    ranking=(Scored("a", 0.9), Scored("b", 0.8), Scored("c", 0.7), Scored("d", -0.1)),
    injected=("a", "c"),
    steps_ms={},
)
NEGATIVE = Asked(query=LabelledQuery(id="n", kind="negative", text="?", gold=frozenset()), ranking=(), steps_ms={})


def swept(*asked: Asked, file: str = "set.jsonl") -> Swept:
    return Swept(
        file=file,
        points={at: injected_figures(each) for at, each in ((0.0, asked), (0.5, asked), (1.0, ()))},
        asked=asked,
        configured=0.6,
    )


def test_the_scores_of_gold_and_of_the_rest_leave_out_what_is_acceptable() -> None:
    assert scores_of([FOUND, NEGATIVE]) == ([0.9], [0.7, -0.1])


@pytest.mark.parametrize(
    "rows",
    [
        [swept(FOUND, NEGATIVE)],
        [swept(FOUND), swept(NEGATIVE, file="$\\bad{$.jsonl")],
    ],
)
def test_the_picture_is_a_png_whatever_there_is_to_draw(rows: list[Swept], tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.png"
    write_file(path, picture(rows))
    assert path.read_bytes().startswith(PNG)


def test_a_place_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot write"):
        write_file(tmp_path, PNG)


async def test_without_matplotlib_the_complaint_names_the_extra_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigurationError, match=r"semrouter-memory\[eval\]"):
        await evaluate(
            EvalOptions(files=[tmp_path / "none.jsonl"], config=Config()), plot=tmp_path / "p.png", sweep=True
        )
