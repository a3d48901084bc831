"""Limits that keep the code readable; import-linter checks the import contracts in `make check`."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "semrouter_memory"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "pb" not in path.parts)

MAX_CODE_LINES = 300
"""Without blank lines, comments and docstrings: what explains is not what makes a heap."""
MAX_FUNCTION_LINES = 45


def code_lines(source: str) -> set[int]:
    """Line numbers that hold code."""
    tree = ast.parse(source)
    documentation = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(source.splitlines(), start=1)
    return {number for number, line in lines if line.strip() and not line.strip().startswith("#")} - documentation


def found_in(path: Path) -> list[str]:
    """What is wrong with a module."""
    source = path.read_text(encoding="utf-8")
    tree, name = ast.parse(source), path.relative_to(PACKAGE)
    says = ast.get_docstring(tree) and source.startswith('"""')
    found = [] if says else [f"{name} does not say in its first line what it is"]
    if (length := len(code_lines(source))) > MAX_CODE_LINES:
        found.append(f"{name} has {length} lines of code")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES:
                found.append(f"{name}: {node.name} has {length} lines")
    return found


def test_no_module_is_a_heap_and_every_module_says_what_it_is() -> None:
    assert MODULES
    assert [each for path in MODULES for each in found_in(path)] == []
