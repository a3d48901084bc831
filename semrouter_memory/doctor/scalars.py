"""Single values as Envoy takes them: more than JSON would, so that nothing is called wrong that works. Pure.

Strategy: each function gives the value, or None for what Envoy refuses; the words are those that Envoy 1.40 was seen to take.
"""

import base64
import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import betterproto2

_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][-+]?\d{1,2})?")
_TO_STANDARD = str.maketrans("-_", "+/")


def boolean(value: Any) -> bool | None:
    """A switch; quoted ones count."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def whole_number(value: Any) -> int | None:
    """A number without a fraction, quoted or not, with an exponent or not."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _NUMBER.fullmatch(str(value)):
        return None
    number = Decimal(str(value))
    return int(number) if number == number.to_integral_value() else None


def number(value: Any) -> float | None:
    """Any number, quoted or not."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) or isinstance(value, str) else None


def duration(value: Any) -> timedelta | None:
    """Seconds with their unit; Envoy knows no other unit."""
    fits = isinstance(value, str) and _DURATION.fullmatch(value)
    return timedelta(seconds=float(value[:-1])) if fits else None


def octets(value: Any) -> bytes | None:
    """Bytes in base64, with or without its padding, in either of its alphabets."""
    if not isinstance(value, str):
        return None
    text = value.rstrip("=").translate(_TO_STANDARD)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def choice(value: Any, cls: type[betterproto2.Enum]) -> betterproto2.Enum | None:
    """A value of an enumeration by its name, in any case, or by its number."""
    index = whole_number(value)
    if index is not None:
        return next((member for member in cls.__members__.values() if member == index), None)
    wanted = value.upper() if isinstance(value, str) else ""
    if wanted in (renamed := cls.betterproto_renamed_proto_names_to_value()):
        return cls(renamed[wanted])
    return cls[wanted] if wanted in cls.__members__ else None


def choices(cls: type[betterproto2.Enum]) -> list[str]:
    """The names that an enumeration has in Envoy's configuration."""
    renamed = cls.betterproto_renamed_proto_names_to_value()
    return [*renamed, *(name for name in cls.__members__ if cls[name] not in renamed.values())]


BOUNDS = {
    kind: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    for kind, bits, signed in (
        (betterproto2.TYPE_INT32, 32, True),
        (betterproto2.TYPE_SINT32, 32, True),
        (betterproto2.TYPE_SFIXED32, 32, True),
        (betterproto2.TYPE_UINT32, 32, False),
        (betterproto2.TYPE_FIXED32, 32, False),
        (betterproto2.TYPE_INT64, 64, True),
        (betterproto2.TYPE_SINT64, 64, True),
        (betterproto2.TYPE_SFIXED64, 64, True),
        (betterproto2.TYPE_UINT64, 64, False),
        (betterproto2.TYPE_FIXED64, 64, False),
    )
}
"""What fits into each kind of whole number."""
