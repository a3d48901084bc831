"""The inference library reports to nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["onnx", "quantize"])
def test_loading_the_inference_library_leaves_nothing_in_the_home_directory(module: str, tmp_path: Path) -> None:
    """What it would send it keeps there first, with an identifier of the device."""
    # Where CI is set the library sends nothing by itself.
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "ORT_DISABLE_TELEMETRY"}}
    subprocess.run(
        [sys.executable, "-c", f"import semrouter_memory.embedding.{module}"],
        env=environment | {"HOME": str(tmp_path)},
        check=True,
    )
    assert list(tmp_path.iterdir()) == []
