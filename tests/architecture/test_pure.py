"""Modules whose docstring says `Pure.` in its first line know no I/O, no clock, no chance and no logging."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "semrouter_memory"

FORBIDDEN_MODULES = {
    *("asyncio", "concurrent", "multiprocessing", "signal", "subprocess", "threading", "time"),
    *(
        "fcntl",
        "http.client",
        "http.server",
        "mmap",
        "os",
        "shutil",
        "socket",
        "sqlite3",
        "ssl",
        "tempfile",
        "urllib.request",
    ),
    *("google", "grpc", "httpx", "openai", "onnxruntime", "pymilvus", "redis", "fastapi", "uvicorn"),
    *("logging", "opentelemetry", "prometheus_client", "structlog", "random", "secrets"),
}
FORBIDDEN_CALLS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid.uuid1", "uuid.uuid4", "uuid4"),
    *("open", "print", "input", "Path.home", "Path.cwd"),
}
PURE_PACKAGES = {"codec", "exchange", "language", "learned", "model"}
"""Pure as a whole: their own docstrings say so for each of their modules."""

_SAYS_PURE = re.compile(r"\bPure[.;]")


def says_pure(path: Path) -> bool:
    """The first line of a module is that of its docstring (`test_size`)."""
    with path.open(encoding="utf-8") as file:
        return bool(_SAYS_PURE.search(file.readline()))


def is_pure(path: Path) -> bool:
    return says_pure(path) or (path.parent != PACKAGE and says_pure(path.parent / "__init__.py"))


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "pb" not in path.parts and is_pure(path)]


def impurities(source: str) -> set[str]:
    """What a pure module may not import, inside functions as well, and may not call."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        imported: list[str] = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_CALLS:
            found.add(ast.unparse(node.func))
        found |= {name for name in imported if name in FORBIDDEN_MODULES or name.split(".")[0] in FORBIDDEN_MODULES}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_pure_module_is_pure(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == set()


def test_these_packages_are_pure_as_a_whole() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py") if says_pure(path)} >= PURE_PACKAGES
    assert says_pure(PACKAGE / "errors.py")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import re\nfrom datetime import datetime\nnow: datetime", set()),
        ("import asyncio.subprocess", {"asyncio.subprocess"}),
        ("def late():\n    import structlog", {"structlog"}),
        ("from redis import asyncio", {"redis", "redis.asyncio"}),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", {"datetime.now"}),
    ],
)
def test_impurities_are_found(source: str, found: set[str]) -> None:
    assert impurities(source) == found
