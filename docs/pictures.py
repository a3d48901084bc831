"""A hook of the documentation's build: leaves out pictures that were not taken (`make screenshots`)."""

import re
from pathlib import Path
from typing import Any

_PICTURE = re.compile(r"^!\[[^\]]*\]\((images/[\w-]+\.png)\)\n", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_rest: object) -> str:
    """The page without the pictures that do not exist."""
    folder = Path(page.file.abs_src_path).parent
    return _PICTURE.sub(lambda found: found[0] if (folder / found[1]).exists() else "", markdown)
