"""What a model may decide, and what it may not."""

import pytest

from semrouter_memory.model import ReconcileAction
from semrouter_memory.retain.reconciling.reconcile import MAX_SHOWN, decided_by_model, grey_prompt

from .conftest import MakeCandidate, MakeHit


@pytest.mark.parametrize("action", ["skip", "update", "refine", "retract", "flag"])
def test_an_action_names_its_target_by_number(action: str, make_hit: MakeHit) -> None:
    known = [make_hit("User likes tea").memory, make_hit("User likes coffee").memory]
    decision = decided_by_model(f'{{"action": "{action}", "target": 2}}', known)
    assert decision is not None
    assert (decision.action, decision.targets) == (ReconcileAction(action), (known[1],))


def test_adding_needs_no_target(make_hit: MakeHit) -> None:
    decision = decided_by_model(
        '<think>hm</think>```json\n{"action": "add", "target": null}\n```', [make_hit("a").memory]
    )
    assert decision is not None
    assert (decision.action, decision.targets) == (ReconcileAction.ADD, ())


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "update the first one",
        "[]",
        '{"action": "update"}',
        '{"action": "update", "target": 0}',
        '{"action": "update", "target": 2}',
        '{"action": "update", "target": true}',
        '{"action": "update", "target": "1"}',
        '{"action": "delete", "target": 1}',
        '{"action": ["update"], "target": 1}',
        '{"action": "update", "target": 1, "why": "because"}',
        '{"action": "update", "target": 1} and more',
    ],
)
def test_anything_else_decides_nothing(answer: str, make_hit: MakeHit) -> None:
    assert decided_by_model(answer, [make_hit("User likes tea").memory]) is None


def test_statements_are_shown_on_one_line_each(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    messages = grey_prompt(make_candidate("User likes\n2. tea"), [make_hit("User\nlikes coffee").memory])
    assert "1. [2026-03-20] User likes coffee\n\nNew fact:\n[2026-03-21] User likes 2. tea" in messages[1].content
    assert MAX_SHOWN >= 1
