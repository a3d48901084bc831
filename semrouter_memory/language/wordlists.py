"""The words that layouts are made of, from `words.toml`, as patterns. Pure."""

import re
import tomllib
from functools import cache
from importlib.resources import files

HAN = re.compile(r"[\u3400-\u9fff]")
_BEFORE, _BEHIND = r"(?<![^\W\u3400-\u9fff])", r"(?![^\W\u3400-\u9fff])"
"""No letter of a word that is not Chinese."""
_NAME = re.compile(r"\{([a-z_]+)\}")


@cache
def _lists() -> dict[str, str]:
    return tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


@cache
def entries(name: str) -> tuple[str, ...]:
    """The words and patterns of a list."""
    return tuple(filter(None, (each.strip() for line in _lists()[name].splitlines() for each in line.split("  "))))


@cache
def _any_of(name: str) -> str:
    found = [_with_lists(each) for each in entries(name)]
    if name.endswith("_lines"):
        return f"(?:{'|'.join(found)})"
    spaced = "|".join(each for each in found if not HAN.search(each))
    joined = [each for each in found if HAN.search(each)]
    return "(?:" + "|".join([f"{_BEFORE}(?:{spaced}){_BEHIND}", *joined]) + ")"


def _with_lists(form: str) -> str:
    return _NAME.sub(lambda name: _any_of(name[1]), form)


def pattern(form: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """A regular expression in which `{name}` stands for any of a list: English words as a whole, Chinese ones anywhere."""
    return re.compile(_with_lists(form), flags)
