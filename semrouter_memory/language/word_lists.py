"""Lists of words: from `word_lists.toml` as patterns, and from a line of text as a set. Pure."""

import re
import tomllib
from functools import cache
from importlib.resources import files

from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START

_NAME = re.compile(r"\{([a-z_]+)\}")


def word_set(text: str) -> frozenset[str]:
    """The words of a text, separated by blanks."""
    return frozenset(text.split())


@cache
def _lists() -> dict[str, str]:
    return tomllib.loads(files(__package__).joinpath("word_lists.toml").read_text(encoding="utf-8"))


@cache
def entries(name: str) -> tuple[str, ...]:
    """The words and patterns of a list."""
    return tuple(filter(None, (each.strip() for line in _lists()[name].splitlines() for each in line.split("  "))))


@cache
def _any_of(name: str) -> str:
    alternatives = [_with_lists(each) for each in entries(name)]
    if name.endswith("_lines"):
        return f"(?:{'|'.join(alternatives)})"
    english = "|".join(each for each in alternatives if not CJK.search(each))
    chinese = [each for each in alternatives if CJK.search(each)]
    return "(?:" + "|".join([f"{WORD_START}(?:{english}){WORD_END}", *chinese]) + ")"


def _with_lists(form: str) -> str:
    return _NAME.sub(lambda name: _any_of(name[1]), form)


def pattern(form: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """A regular expression in which `{name}` stands for any of a list: English words as a whole, Chinese ones anywhere."""
    return re.compile(_with_lists(form), flags)
