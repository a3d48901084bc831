"""What reads a user's message takes time in proportion to its length, whatever runs of characters are in it.

A pattern that backtracks holds its process for good, so the readers run in a process that is killed when it is late.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.message_readers import CHARS, READERS, RUNS

MOST_CPU_SECONDS = 0.6
"""Of one reader on one text, on a machine that is busy; 16,000 blanks took 1.2 s and more while one pattern was quadratic."""
MOST_SECONDS = 600
"""Of all together; a pattern that does not end is killed then."""
FRAMES = ("{}", "I live in{}Rome", "{}", "my password is{}x1", "    {}", "remember:{}", "{}", "“{}", "User's{}")


def texts() -> list[str]:
    """Every run, every other one in a frame."""
    return [FRAMES[number % len(FRAMES)].replace("{}", run * (CHARS // len(run))) for number, run in enumerate(RUNS)]


def measure() -> None:
    """Read every text and tell, line by line, which reader is at work and the processor time it took."""
    for text in texts():
        for name, read in READERS.items():
            sys.stdout.write(f"{name}\t{text[:24]!r}\t")
            sys.stdout.flush()
            began = time.process_time()
            read(text)
            sys.stdout.write(f"{time.process_time() - began:.3f}\n")


@pytest.mark.timeout(MOST_SECONDS + 10)
def test_no_run_of_characters_takes_a_reader_long() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.property.test_reading_time import measure; measure()"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == len(texts()) * len(READERS)
    assert [line for line in lines if float(line[-1]) > MOST_CPU_SECONDS] == []
