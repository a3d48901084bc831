"""How commands print what people stored."""

import pytest

from semrouter_memory.cli.output import print_objects


def test_of_a_long_memory_its_beginning_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects({"id": "id", "content": "content"}, [{"id": "m1", "content": "long " * 1_000}, {"id": "m2"}])
    printed = capsys.readouterr().out
    assert printed.count("long") < 100
    assert "…" in printed
    assert "m2" in printed
