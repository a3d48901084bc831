"""Connections to SQLite and Redis; and how values become columns there and back.

Ids of users and projects must stay apart whatever they hold, so they are stored as bytes, one to one.
"""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    return _EPOCH + value * _MICROSECOND


def pack(identifier: str) -> bytes:
    return identifier.encode("utf-8", "surrogatepass")


def unpack(identifier: bytes) -> str:
    return identifier.decode("utf-8", "surrogatepass")
