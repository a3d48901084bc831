"""The bench command refuses what it cannot measure, before it starts anything."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from semrouter_memory.errors import ConfigurationError


@pytest.mark.parametrize("sizes", ["1000,100", "0", "many", "10,10"])
def test_sizes_that_do_not_rise_are_refused(sizes: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--lite", sizes, "--directory", str(tmp_path / "bench")])

    assert isinstance(result.exception, ConfigurationError)
    assert "--lite" in str(result.exception)


def test_a_section_that_does_not_exist_is_refused_and_the_directory_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    result = CliRunner().invoke(app, ["--only", "speed", "--directory", str(tmp_path)])

    assert isinstance(result.exception, ConfigurationError)
    assert "there are headline, throughput" in str(result.exception)
    assert (tmp_path / "kept").exists()
