"""No text makes reading dwell: what a client can send, and send again, is read in bounded time.

In a process of its own, which can be killed: a regular expression that backtracks holds the interpreter for hours. The bound
is a hundred times what it takes.
"""

import subprocess
import sys

import pytest

LONG = 8_000
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
READ = """
import sys
from semrouter_memory.language.sentences import sentences
from semrouter_memory.retain.redact import redact
from semrouter_memory.retain.remember import asks_to_remember
from semrouter_memory.language.own_text import own_text
from semrouter_memory.retain.spoken import withdraws
for text in sys.stdin.read().split("\\0"):
    sentences(own_text(text))
    sentences(text)
    asks_to_remember(text)
    withdraws(text)
    redact(text)
"""


@pytest.mark.parametrize("piece", PIECES)
def test_a_text_of_one_piece_repeated_is_read_at_once(piece: str) -> None:
    body = PIECES[piece] * (LONG // len(PIECES[piece]))
    texts = [
        before + body + behind
        for before in ("", "summarize ", "I ", "hello\n")
        for behind in ("", "X.\nnote it", "!x?")
    ]
    done = subprocess.run(
        [sys.executable, "-c", READ], input="\0".join(texts), text=True, timeout=60, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
