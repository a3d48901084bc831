"""Parsing JSON as leniently as LLM servers do, so that what they understand is understood here too.

Strategy: a strict and fast parser reads nearly every text. The standard library reads the rest: a byte order mark, numbers
beyond a double (1e400), NaN and Infinity, halves of surrogate pairs. Only the parsed value differs, never the bytes that
are sent on; a half of a pair becomes a sign that every later part can encode.
"""

import json
import re
from typing import Any

import orjson

from semrouter_memory.errors import BodyError

BOM = b"\xef\xbb\xbf"

_MAX_INT_DIGITS = 300
_TOO_DEEP = "depth limit exceeded"
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


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
