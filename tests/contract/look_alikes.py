"""Pairs of owners that one could take for each other: by eye, by normalisation, by a wildcard, a separator, a quotation."""

from itertools import permutations

from semrouter_memory.model import OwnerKind, Scope

_IDS = {
    "composed": ("vi\u0301ctim", "v\u00edctim"),
    "ligature": ("\ufb01le", "file"),
    "full width": ("\uff21\uff24\uff2d\uff29\uff2e", "ADMIN"),
    "roman numeral": ("\u2167", "VIII"),
    "case": ("Alice", "alice"),
    "folded": ("stra\u00dfe", "strasse"),
    "long s": ("\u017fam", "sam"),
    "kelvin": ("\u212aelvin", "Kelvin"),
    "dotless": ("\u0130d", "i\u0307d"),
    "other alphabet": ("vіctim", "victim"),
    "invisible": ("a\u200bb", "ab"),
    "backwards": ("\u202ebob", "bob"),
    "space at the end": ("carol ", "carol"),
    "no-break space": ("d\u00a0e", "d e"),
    "line end": ("f\n", "f\r"),
    "request splitting": ("g\r\nx-authz-user-id: h", "h"),
    "nul": ("i\x00", "i"),
    "nul first": ("\x00", ""),
    "percent": ("j%", "j%25"),
    "encoded": ("%6b", "k"),
    "underscore": ("l_", "l1"),
    "star": ("m*", "m1"),
    "character set": ("n[a-z]", "nx"),
    "owner's prefix": ("user:o", "o"),
    "quote": ('p"', "p"),
    "closed quote": ('" or owner != "', "nobody"),
    "other quote": ("' or '1'='1", "1"),
    "list": ('q"] or owner in ["r', "r"),
    "backslash": ("s\\", "s\\\\"),
    "escape": ("\\u0074", "t"),
    "digest": ("%sha256%u", "u"),
    "surrogates": ("\ud800", "\ud801"),
    "replacement": ("?", "\ufffd"),
    "numbers": ("1.0", "01"),
    "nothing": ("null", "None"),
    "dots": ("..", "."),
    "long": ("v" * 10_001, "v" * 10_000),
    "long quotes": ('"' * 10_001, '"' * 10_000),
    "beyond any column": ("w" * 70_000 + "!", "w" * 70_000 + "?"),
}

PAIRS = {name: (Scope(one), Scope(other)) for name, (one, other) in _IDS.items()} | {
    "separator": (Scope("x:y", "z"), Scope("x", "y:z")),
    "length": (Scope("cd", "e"), Scope("c", "de")),
    "swapped": (Scope("project", "user"), Scope("user", "project")),
    "kind in the id": (Scope("org:acme"), Scope("acme", kind=OwnerKind.ORGANISATION)),
    "kind in the id of another kind": (Scope("user:acme", kind=OwnerKind.AGENT), Scope("acme")),
}
PAIRS |= {
    f"{one} and {other}": (Scope(f"{one}{other}", kind=one), Scope(f"{one}{other}", kind=other))
    for one, other in permutations(OwnerKind, 2)
}
"""(intruder, resident); no two of all these are the same owner."""

assert len({scope.owner for pair in PAIRS.values() for scope in pair}) == 2 * len(PAIRS)
