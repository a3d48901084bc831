"""How many texts of a file redaction changes, by kind of secret."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.evaluation.cases import parse_cases, write_json
from semrouter_memory.model import Json
from semrouter_memory.retain.redact import Redaction, redact

_TEXTS = frozenset({"content", "text", "user", "assistant"})
"""Members that hold a text in the formats of the other evaluations."""


def evaluate(files: Sequence[Path], *, show: bool, json_out: Path | None) -> None:
    """Print one row a file, and with `show` each changed text.

    Raises:
        InputFileError: a file cannot be read, or is not JSON lines.
    """
    console = Console()
    results = [_measured(console, path, show=show) for path in files]
    table = Table("file", "texts", "changed", "kinds")
    for result in results:
        kinds = ", ".join(f"{kind} {count}" for kind, count in result["kinds"].items())
        table.add_row(Text(result["file"]), str(result["texts"]), str(result["changed"]), kinds)
    console.print(table)
    if json_out is not None:
        write_json(json_out, results)


def _measured(console: Console, path: Path, *, show: bool) -> dict[str, Json]:
    texts = [text for found in parse_cases(path, lambda case: list(_texts(case))) for text in found]
    changed = [found for text in texts if (found := redact(text)).kinds]
    if show:
        for found in changed:
            console.print(_shown(found))
    kinds = Counter(str(kind) for found in changed for kind in found.kinds)
    return {"file": path.name, "texts": len(texts), "changed": len(changed), "kinds": dict(sorted(kinds.items()))}


def _shown(found: Redaction) -> Text:
    return Text(f"{', '.join(found.kinds)}: {found.text}")


def _texts(value: Json, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if name in _TEXTS:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, key)
