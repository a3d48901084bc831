"""What the sidecar wrote to its log."""

import json
from typing import Any

from .conftest import Installation


def lines(on: Installation) -> list[dict[str, Any]]:
    """Its own lines; others (Milvus Lite prints some) are no JSON."""
    text = on.stack.sidecar.log.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def logged(on: Installation, level: str, event: str) -> int:
    """How many lines of that level begin with these words."""
    return sum(line["level"] == level and line["event"].startswith(event) for line in lines(on))
