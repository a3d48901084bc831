"""What both turn logs agree on about claims: when a lease is over, when a back-off counts, how much one claim holds.

Strategy: pure rules over times in microseconds. Clocks are set back at times (a virtual machine that was paused, a
server that is corrected): a moment that lies further ahead than it can have been set counts as past, or a session would
wait for as long as the step was.
"""

from collections.abc import Iterable
from datetime import timedelta

CLAIMED_TURNS = 100
"""So many waiting turns a claim holds at most, and so many that the rules have not seen."""

USUAL_LEASE = timedelta(minutes=10)
"""How long leases are taken to be before the first claim says it."""

LONGEST_BACK_OFF = timedelta(days=1)
"""Upper bound on back-offs where none is configured."""

_SKEW = 2
"""Replicas' clocks differ: what ends within so many leases, or back-offs, may be true."""

_MICROSECOND = timedelta(microseconds=1)


def is_over(lease_until: int, *, now: int, lease: timedelta) -> bool:
    """Whether another claim may be made.

    Args:
        lease: how long leases are.
    """
    return lease_until <= now or lease_until > latest_end(now=now, lease=lease)


def latest_end(*, now: int, lease: timedelta) -> int:
    """A lease that ends later was given by a clock that has been set back since."""
    return now + _SKEW * (lease // _MICROSECOND)


def back_off(not_before: int | None, *, now: int, longest: timedelta) -> int | None:
    """Until when a session is to be left alone; None when it is not, or when that lies further ahead than it can."""
    if not_before is None or not_before > now + _SKEW * (longest // _MICROSECOND):
        return None
    return not_before


def claimed(waiting: Iterable[tuple[int, bool]]) -> list[int]:
    """The sequence numbers that one claim holds, of the waiting turns (sequence, seen by the rules), oldest first."""
    turns = list(waiting)
    unseen = [sequence for sequence, seen in turns if not seen]
    return sorted({sequence for sequence, _ in turns[:CLAIMED_TURNS]} | set(unseen[:CLAIMED_TURNS]))
