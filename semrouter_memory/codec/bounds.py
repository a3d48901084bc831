"""How much a JSON text may hold besides its length: what is read value by value takes time and memory for each.

A string of 60 MB is one value and costs nothing; 60 MB of `[],` are 20 million, which take gigabytes and, as every stream
shares one loop, minutes of everybody's time. So the values are counted first, at the speed of a memory scan.
"""

import re

MAX_VALUES = 250_000
"""Some 80,000 messages; read and edited in less than a second."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_STRUCTURE = (b",", b"[", b"{")


def holds_too_many_values(raw: bytes | bytearray, *, max_values: int = MAX_VALUES) -> bool:
    """Whether a JSON text has more values than that, those inside of values counted too."""
    if len(raw) <= max_values or _structure(raw) <= max_values:
        return False
    # What looks like structure may stand inside strings, as in pasted code. Each pass over one takes time as well.
    bare, strings = _STRING.subn(b"", raw, count=max_values)
    return strings == max_values or _structure(bare) > max_values


def _structure(raw: bytes | bytearray) -> int:
    """Every value but the first follows one of these."""
    return sum(map(raw.count, _STRUCTURE))
