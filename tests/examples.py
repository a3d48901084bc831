"""How many examples a property is tried with: `make fuzz` tries ten times as many (SEMROUTER_MEMORY_PROPERTIES=full)."""

import os

_TIMES = 10 if os.environ.get("SEMROUTER_MEMORY_PROPERTIES") == "full" else 1


def examples(of_a_run: int) -> int:
    """`of_a_run`: how many, when all tests run."""
    return _TIMES * of_a_run
