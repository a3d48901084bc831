"""Both errors of redaction on labelled texts: secrets that are missed, and ordinary texts that are changed.

`redaction_secrets.tsv`: kind, tab, a text with its secret between ⟦ and ⟧; every value is made up.
`redaction_harmless.txt`: one text a line in which nothing is secret, most of them near a secret's words.
"""

import re
from pathlib import Path

from semrouter_memory.retain.redact import MARK, SecretKind, redact

HERE = Path(__file__).parent
MOST_MISSED = 4
"""Of the secrets; asides and verbs in between that no rule follows."""
MOST_CHANGED = 0
MOST_OF_ANOTHER_KIND = 0.02


def secrets() -> list[tuple[SecretKind, str, str, str]]:
    """Kind, and the text before the secret, the secret, and the text behind it."""
    lines = (HERE / "redaction_secrets.tsv").read_text(encoding="utf-8").splitlines()
    cases = []
    for line in lines:
        kind, text = line.split("\t")
        before, secret, behind = re.split("[⟦⟧]", text)
        cases.append((SecretKind(kind), before, secret, behind))
    return cases


def test_secrets_in_prose_are_found() -> None:
    cases = secrets()
    assert len(cases) >= 400
    assert {kind for kind, *_ in cases} == set(SecretKind)
    missed = [
        before + secret + behind
        for _, before, secret, behind in cases
        if secret in redact(before + secret + behind).text[len(before) :] or not redact(before + secret + behind).kinds
    ]
    assert len(missed) <= MOST_MISSED, missed


def test_a_secret_is_counted_as_what_it_is() -> None:
    other = [
        (kind, found.kinds)
        for kind, *parts in secrets()
        if (found := redact("".join(parts))).kinds and kind not in found.kinds
    ]
    assert len(other) <= MOST_OF_ANOTHER_KIND * len(secrets()), other


def test_what_stands_before_a_secret_stays() -> None:
    named = [(before, redact(before + secret + behind)) for _, before, secret, behind in secrets()]
    assert [
        (before, found.text)
        for before, found in named
        if len(found.kinds) == 1
        and "-----" not in before
        and "AccountKey" not in before
        and not found.text.startswith(before + MARK)
    ] == []


def test_ordinary_texts_stay_as_they_are() -> None:
    texts = (HERE / "redaction_harmless.txt").read_text(encoding="utf-8").splitlines()
    assert len(texts) >= 550
    changed = [found.text for text in texts if (found := redact(text)).kinds]
    assert len(changed) <= MOST_CHANGED, changed
