"""The console has words for what recall decides."""

from importlib.resources import files

import pytest

from semrouter_memory.model import Reason
from semrouter_memory.recall.explanation import Verdict

WORDS = (files("semrouter_memory.manage") / "console" / "words.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*(reason for reason in Reason if reason.is_outcome), *Verdict])
def test_every_outcome_and_every_verdict_has_words(name: str) -> None:
    assert f" {name}: " in WORDS
