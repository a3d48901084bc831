"""No text makes reading dwell: what a client can send, and send again, is read in bounded time.

In a process of its own, which the system kills when it has used its processor time up: a regular expression that backtracks
holds the interpreter for hours. The process is used again as long as it lives: loading takes longer than reading. What takes
time in the square of the length is another test's to find (test_reading_time).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

LONG = 2_500
PIECES = {
    "hyphenated capitals": "Mr-",
    "ruled lines": "-=",
    "hashtags": " #a",
    "images": "![",
    "brackets": "【",
    "blank lines": "\n",
    "blanks": " ",
    "tabs": "\t",
    "words of an order": "it ",
    "capitals": "Anna ",
    "list": "a, ",
    "heads": "A: ",
    "quotes": '"',
    "Chinese commas": "我，",
    "numbers": "1,",
    "tags": "<a ",
    "calls": "a(",
    "times": "12:30 ",
    "hearsay": "said ",
    "conjunctions": "and ",
    "words before an order": "ok  ",
    "dashes": " - ",
}
MOST_CPU_SECONDS = 4
"""Ten times what it takes; in the cube of the length, the longest of these pieces would take more."""
READ = f"""
import json, math, resource, sys, time
from semrouter_memory.language.sentences import sentences
from semrouter_memory.retain.redact import redact
from semrouter_memory.retain.directives import asks_to_remember
from semrouter_memory.language.own_text import own_text
from semrouter_memory.retain.directives import withdraws
for line in sys.stdin:
    most = math.ceil(time.process_time()) + {MOST_CPU_SECONDS}
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
    for text in json.loads(line):
        sentences(own_text(text))
        sentences(text)
        asks_to_remember(text)
        withdraws(text)
        redact(text)
    print("read", flush=True)
"""


@pytest.fixture(scope="module")
def read() -> Iterator[Callable[[list[str]], bool]]:
    """Reads texts; says whether it was done in time and without an error."""
    started: list[subprocess.Popen[str]] = []

    def read(texts: list[str]) -> bool:
        if not started or started[-1].poll() is not None:
            command = [sys.executable, "-c", READ]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        reader = started[-1]
        assert reader.stdin is not None
        assert reader.stdout is not None
        print(json.dumps(texts), file=reader.stdin, flush=True)
        said = reader.stdout.readline()
        if said != "read\n":
            reader.wait()
        return said == "read\n"

    yield read
    for reader in started:
        reader.kill()
        reader.communicate()


@pytest.mark.parametrize("piece", PIECES)
def test_a_text_of_one_piece_repeated_is_read_at_once(piece: str, read: Callable[[list[str]], bool]) -> None:
    body = PIECES[piece] * (LONG // len(PIECES[piece]))
    before_body, behind_body = ("", "summarize ", "I ", "hello\n"), ("", "X.\nnote it", "!x?")
    assert read([before + body + behind for before in before_body for behind in behind_body])
