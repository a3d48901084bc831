"""Files of cases: what is read, and what a complaint says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from semrouter_memory.config import Config
from semrouter_memory.errors import InputFileError
from semrouter_memory.evaluation.cases import CaseTurn, parse_cases, read_cases, write_json
from semrouter_memory.evaluation.knowledge import Paragraph
from semrouter_memory.evaluation.running import EvalOptions, play_files


@dataclass(frozen=True, slots=True)
class Anything:
    pass


def test_each_line_is_a_case_and_empty_lines_are_none(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('\ufeff{"id": "a"}\r\n\n{"id": "b", "text": "line\\u2028separator \u2028"}\n', encoding="utf-8")
    assert [case["id"] for case in parse_cases(path, dict)] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"id": "a"}\n{"id": \n', "line 2: not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"\n", "holds no cases"),
    ],
)
def test_a_complaint_names_file_and_line(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=complaint) as raised:
        parse_cases(path, dict)
    assert str(path) in str(raised.value)


def test_a_missing_or_wrong_field_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    for line, complaint in (
        ("{}", "line 1: user: Field required"),
        ('{"user": 1}', "line 1: user: Input should be a valid string"),
        ('["b"]', "line 1: a case is a JSON object, not list"),
    ):
        path.write_text(line)
        with pytest.raises(InputFileError, match=complaint):
            read_cases(path, CaseTurn)


def test_a_line_that_is_no_case_of_documents_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"title": "Leave", "text": "Thirty days."}\n{"title": "Leave", "content": "Thirty days."}\n')
    with pytest.raises(InputFileError, match=r"line 2.*needs a text, or questions"):
        read_cases(path, Paragraph)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="No such file"):
        parse_cases(tmp_path / "none.jsonl", dict)


def test_a_result_is_written_as_json_that_people_can_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.json"
    write_json(path, {"files": [{"file": "生活"}]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"files": [{"file": "生活"}]}
    assert "生活" in path.read_text(encoding="utf-8")


async def test_files_of_one_name_are_played_both(tmp_path: Path, model_directory: Path) -> None:
    files = [tmp_path / each / "cases.jsonl" for each in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text("{}", encoding="utf-8")
    played: list[str] = []

    async def play(name: str, cases: Sequence[Anything], *_: object) -> int:
        played.append(name)
        return len(cases)

    options = EvalOptions(files=files, config=Config(), model=model_directory, json_out=tmp_path / "out.json")
    await play_files(options, Anything, play=play, report=lambda _console, _name, outcome: outcome)
    assert played == ["cases.jsonl", "cases.jsonl"]
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == {"files": [1, 1]}
