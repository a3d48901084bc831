"""The memories and questions that are measured with: one user, many facts of one form, so that every question has hits."""

from collections.abc import Iterator

_PLACES = ("Hawaii", "Norway", "Kyoto", "Lisbon", "Quebec", "Nairobi", "Oaxaca", "Tallinn", "Hanoi", "Cusco")
_THINGS = ("budget", "hotel", "guide", "insurance", "packing list", "arrival day", "rental car", "travel partner")
_VALUES = ("the blue one", "from Monday on", "about 900 euros", "still open", "booked in March")


def memories(count: int) -> Iterator[str]:
    for number in range(count):
        place, thing = _PLACES[number % 10], _THINGS[number // 10 % 8]
        value = _VALUES[number % 5]
        yield f"User's {thing} for trip number {number} to {place} is {value}"


def questions(count: int) -> list[str]:
    return [f"What's my {_THINGS[number % 8]} for the trip to {_PLACES[number % 10]}?" for number in range(count)]
