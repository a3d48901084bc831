"""Which signs of a text tell it from another one."""

import pytest

from semrouter_memory.language.signs import signs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("blood type A+", "blood type A-"),
        ("blood type AB-.", "blood type AB"),
        ("writes C++", "writes C#"),
        ("writes C", "writes C++"),
        ("at -5 degrees", "at 5 degrees"),
        ("$500", "€500"),
        ("500 dollars", "500 euros"),
        ("foo_bar", "foo-bar"),
        ("零下5度", "5度"),
    ],
)
def test_these_differ(one: str, other: str) -> None:
    assert signs(one).differ(signs(other))
    assert signs(other).differ(signs(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$500", "500"),
        ("$500", "500 dollars"),
        ("writes C++.", "writes c++"),
        ("at -5 degrees", "at minus 5 degrees"),
        ("\u22125", "-5"),
        ("COVID-19", "Covid 19"),
        ("5-10 people", "5 - 10 people"),
        ("2026-05-03", "May 3, 2026"),
        ("check-in", "check in"),
        ("a - b", "a, b"),
    ],
)
def test_these_do_not(one: str, other: str) -> None:
    assert not signs(one).differ(signs(other))
