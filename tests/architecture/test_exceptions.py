"""Few exception classes, in one module: one that no `except` and no answer distinguishes is an attribute of another."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "semrouter_memory"
MAX_CLASSES = 12


def exception_classes(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).endswith(("Error", "Exception"))
    }


def test_exceptions_are_few_and_in_one_module() -> None:
    found = {path.name: classes for path in PACKAGE.rglob("*.py") if (classes := exception_classes(path))}
    assert found.keys() == {"errors.py"}
    assert len(found["errors.py"]) <= MAX_CLASSES
