"""The words that layouts are made of, from `words.toml`, as patterns. Pure."""

import re
import tomllib
from functools import cache
from importlib.resources import files

HAN = re.compile(r"[\u3400-\u9fff]")
_BEFORE, _BEHIND = r"(?<![^\W\u3400-\u9fff])", r"(?![^\W\u3400-\u9fff])"
"""No letter of a word that is not Chinese."""
_BETWEEN = re.compile(r" {2,}|\n")


@cache
def _lists() -> dict[str, str]:
    return tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


@cache
def entries(name: str) -> tuple[str, ...]:
    """The words and patterns of a list."""
    return tuple(filter(None, _BETWEEN.split(_lists()[name].strip())))


@cache
def any_of(name: str) -> str:
    """A pattern for any of them: English ones as whole words, Chinese ones anywhere."""
    if name.endswith("_lines"):
        return "(?:" + "|".join(entries(name)) + ")"
    spaced = [each for each in entries(name) if not HAN.search(each)]
    joined = [each for each in entries(name) if HAN.search(each)]
    return "(?:" + "|".join([f"{_BEFORE}(?:{'|'.join(spaced)}){_BEHIND}", *joined]) + ")"


def pattern(form: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """A regular expression in which `{name}` stands for a list."""
    names = re.findall(r"\{([a-z_]+)\}", form)
    for name in names:
        form = form.replace(f"{{{name}}}", any_of(name))
    return re.compile(form, flags)
