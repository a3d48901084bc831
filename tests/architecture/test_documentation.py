"""The documentation names what exists. `make docs` checks the links between its pages; this checks the rest."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md", "training/README.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
MAX_README_LINES = 220

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NAMED = re.compile(r"`([\w./-]+\.(?:py|md|toml|yaml|jsonl|proto|txt)|[\w-]+(?:/[\w-]+)*/)`")
"""A file or a folder in backticks."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What headings can be linked to by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TOP, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    for link in links:
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_that_is_named_exists(page: Path) -> None:
    """Relative to the page, to the repository or to the package."""
    named = _NAMED.findall(page.read_text(encoding="utf-8"))
    places = (page.parent, ROOT, ROOT / "semrouter_memory")
    known = {
        "turns.db",
        "config.yaml",
        "new.yaml",
        "site/",
        "milvus.writes/",
        "milvus.db.writes/",
        "recordings/",
        "dist/",
    }
    assert [each for each in named if each not in known and not any((place / each).exists() for place in places)] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


def test_the_picture_is_the_same_wherever_it_is_shown() -> None:
    def picture(page: str) -> list[str]:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        start = lines.index(" " * 16 + "client")
        return list(takewhile(lambda line: line.startswith(" "), lines[start:]))

    assert len(picture("README.md")) > 10
    assert picture("README.md") == picture("docs/architecture.md")
