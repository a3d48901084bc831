"""Cuts a text into sentences. Pure."""

import re

# After a full stop only before a blank or the end ("3.5", "e.g. this" stay whole); Chinese needs none.
_END = re.compile(r"(?:(?<![.!?…])[.!?…]++[\"')\]”’]*(?=\s|$)|[。！？!?][”」』）]*|\n)\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|a\.m|p\.m|no|approx|inc|ltd|u\.s|u\.k)|\b[A-Z]|^\s*\d{1,2})\.\s*$",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences in order, each with the blanks behind it: joined, they are the text."""
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        piece = text[start : end.end()]
        if "\n" not in end.group() and _ABBREVIATION.search(piece):
            continue
        if piece.strip():
            found.append(piece)
        elif found:
            found[-1] += piece
        else:
            continue
        start = end.end()
    if text[start:].strip():
        found.append(text[start:])
    return found
