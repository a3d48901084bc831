"""Parsing JSON as leniently as LLM servers do, so that what they understand is understood here too; with a bound.

Strategy: a strict and fast parser reads nearly every text. The standard library reads the rest: a byte order mark, numbers
beyond a double (1e400), NaN and Infinity, halves of surrogate pairs. Only the parsed value differs, never the bytes that
are sent on; a half of a pair becomes a sign that every later part can encode.

A text is bounded by its number of values, besides its length: each takes time and memory. A string of 60 MB is one value and
costs nothing; 60 MB of `[],` are 20 million, which take gigabytes and, as all streams share one loop, minutes of everybody's
time. So the values are counted first, at the speed of a memory scan.

Of what was parsed a value of another type than is looked for counts as absent.
"""

import json
import re
from typing import Any

import orjson

from semrouter_memory.errors import BodyError

BOM = b"\xef\xbb\xbf"

MAX_VALUES = 250_000
"""Some 80,000 messages; read and edited in less than a second."""

_STRUCTURE = b",[{"
_MAX_INT_DIGITS = 300
_TOO_DEEP = "depth limit exceeded"
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def json_object(raw: bytes | bytearray) -> dict[str, Any]:
    """The body.

    Raises:
        BodyError: it is not JSON, or not an object, or holds more values than anybody should have to read.
    """
    if holds_too_many_values(raw):
        raise BodyError("the body holds too many values")
    body = parsed_json(raw)
    if not isinstance(body, dict):
        raise BodyError("the body is not a JSON object")
    return body


def parsed_json(raw: bytes | bytearray) -> Any:
    """The value.

    Raises:
        BodyError: it is not JSON. The message does not quote it.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_TOO_DEEP):
            raise BodyError("the body is nested too deeply") from None
    try:
        text = raw.removeprefix(BOM).decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode()
        return json.loads(_ESCAPE.sub(_whole, text) if "\\u" in text else text, parse_int=_number)
    except (ValueError, RecursionError):
        raise BodyError("the body is not JSON") from None


def _whole(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[1] else escape[0]


def _number(digits: str) -> int | float:
    # Python refuses to read an integer of thousands of digits.
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float(digits)


def holds_too_many_values(raw: bytes | bytearray, *, max_values: int = MAX_VALUES) -> bool:
    """Whether a JSON text has more values than that, those inside of values counted too."""
    if len(raw) <= max_values or _structure(raw) <= max_values:
        return False
    # What looks like structure may stand inside strings, as in pasted code. Each of these takes time as well.
    parts = raw.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 2 * max_values)
    return len(parts) > 2 * max_values or _structure(b"".join(parts[::2])) > max_values


def _structure(raw: bytes | bytearray) -> int:
    """Every value but the first follows one of these."""
    return len(raw) - len(raw.translate(None, _STRUCTURE))


# Tuples: a hostile type may be a list, which no set can look up.
_TEXTS = ("text", "input_text", "output_text")
_WORDS = (*_TEXTS, "refusal", "reasoning_text", "summary_text")


def string(value: Any) -> str:
    """The value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def index(value: Any) -> int:
    """The value if it is an integer, else 0: who leaves an index out has one element."""
    return value if isinstance(value, int) else 0


def text_of(content: Any, *, joint: str = "\n") -> str:
    """The text of a message's content: a string, or the text parts of a list. Refusals and media are no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return joint.join(text for part in content if (text := _text_of_part(part)))


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") in _TEXTS:
        return string(part.get("text"))
    return ""


def holds_more(content: Any) -> bool:
    """Whether a message's content holds more than its text: an image, a file, sound, or an unknown part.

    A refusal is only the absence of an answer.
    """
    if isinstance(content, list):
        return any(not isinstance(part, str) and mapping(part).get("type") not in _WORDS for part in content)
    return content is not None and not isinstance(content, str)
