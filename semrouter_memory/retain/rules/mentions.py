"""Whom and what later pronouns stand for."""

import re

from semrouter_memory.retain.rules import lexicon as lex

_MENTION = re.compile(
    r"\b(?:((?i:my|our|the))\s+)?\b([a-z]+(?:-[a-z]+)*)\b(\s+(?:Dr\.?\s|Mrs?\.?\s|Ms\.?\s)?[A-ZÀ-Þ][\w'’-]+)?"
)
_APPOINTMENT = re.compile(
    r"\b(?:have|have got|got|my|booked)\s+(?:an?\s+|the\s+)?(?P<what>(?:[\w-]+\s){0,2}?(?:appointment|interview|exam|meeting|flight|surgery|operation|wedding|viewing|check-?up|deadline|test|class|party|reservation|booking))\b",
    re.IGNORECASE,
)


def introduced(clause: str) -> dict[str, str]:
    """Whom later pronouns may stand for: "my mother ..." -> she is the user's mother."""
    people: dict[str, str] = {}
    for match in _MENTION.finditer(clause):
        relation, name = match.group(2), match.group(3) or ""
        mine = (match.group(1) or "").lower() in {"my", "our"} or (relation in lex.REPORTERS and match.start(2) == 0)
        if not mine or relation not in lex.RELATIONS or clause[match.end() : match.end() + 2] == "'s":
            continue
        who = f"User's {relation}{name}"
        if relation in lex.FEMALE:
            people["she"] = who
        elif relation in lex.MALE:
            people["he"] = who
        else:
            people["she"] = people["he"] = people["they"] = who
    if appointment := _APPOINTMENT.search(clause):
        people["it"] = f"User's {appointment.group('what').lower()}"
    return people
