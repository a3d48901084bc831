"""Add, update or skip, from what two statements say."""

import pytest

from semrouter_memory.model import MemoryType, ReconcileAction
from semrouter_memory.retain.reconcile import reconcile

from .conftest import MakeCandidate, MakeHit

ADD, UPDATE, SKIP = ReconcileAction.ADD, ReconcileAction.UPDATE, ReconcileAction.SKIP

PAIRS = [
    # the measured pairs: the cosine cannot decide any of them
    ("User's budget for Hawaii is $10,000", "User's budget is now $15,000", 0.56, UPDATE),
    ("User's budget for Hawaii is $10,000", "User's budget for Hawaii is $15,000", 0.94, UPDATE),
    ("User's budget for Hawaii is $10,000", "User's budget for Japan is $10,000", 0.69, ADD),
    ("User lives in Berlin", "User lives in Munich", 0.79, UPDATE),
    ("User prefers dark mode", "User prefers light mode", 0.84, UPDATE),
    ("User's dog is called Rex", "User's cat is called Tom", 0.60, ADD),
    # the same, said differently
    ("User lives in Berlin", "User lives in Berlin", 1.0, SKIP),
    ("User lives in Berlin", "The user lives in Berlin.", 0.99, SKIP),
    ("User's budget for the Hawaii trip is $10,000", "User has a budget of $10K for the Hawaii vacation", 0.9, SKIP),
    ("User is allergic to shrimp", "User has a shrimp allergy", 0.9, SKIP),
    ("User's exam is on 2026-05-03", "User's exam is on May 3, 2026", 0.9, SKIP),
    ("User prefers rice over pasta", "User likes rice more than pasta", 0.9, SKIP),
    # one value at a time
    ("User's name is Alice", "User's name is Alicia", 0.6, UPDATE),
    ("User works as a nurse", "User works as a teacher", 0.7, UPDATE),
    ("User lives in Berlin", "User moved to Munich", 0.6, UPDATE),
    ("User's car is a 2015 Golf", "User's car is a Tesla Model 3", 0.6, UPDATE),
    ("User is 29", "User is 30", 0.9, UPDATE),
    ("User has two cats", "User has three cats", 0.9, UPDATE),
    ("User is vegetarian", "User is vegan", 0.8, UPDATE),
    ("User is single", "User is engaged to Tom", 0.5, UPDATE),
    ("User prefers rice over pasta", "User prefers pasta over rice", 0.98, UPDATE),
    ("User switched jobs to Acme", "User switched the heating from oil to gas", 0.3, ADD),
    ("User's heating runs on oil", "User switched the heating from oil to gas", 0.7, UPDATE),
    ("用户住在北京", "用户住在上海", 0.9, UPDATE),
    ("用户的预算是5000元", "用户的预算是8000元", 0.9, UPDATE),
    # contradiction, and what only looks like one
    ("User likes sushi", "User does not like sushi any more", 0.8, UPDATE),
    ("User works at Acme", "User no longer works at Acme", 0.9, UPDATE),
    ("User likes playing chess", "User doesn't like watching chess", 0.8, ADD),
    ("User does not drink alcohol", "User does not drink coffee", 0.8, ADD),
    # several values side by side
    ("User likes coffee", "User likes tea", 0.8, ADD),
    ("User is allergic to peanuts", "User is allergic to shellfish", 0.8, ADD),
    ("User speaks French", "User speaks German", 0.8, ADD),
    ("User's hobby is chess", "User's hobby is rowing", 0.8, ADD),
    # other people, other things
    ("User lives in Berlin", "User's sister lives in Munich", 0.6, ADD),
    ("User's mother has diabetes", "User has diabetes", 0.9, ADD),
    ("User's daughter Mia has asthma", "User's daughter Zoe has asthma", 0.96, ADD),
    ("User's gas bill is 74 euros", "User's water bill is 74 euros", 0.9, ADD),
    ("用户的爸爸喝茶", "用户的妈妈喝茶", 0.97, ADD),
    # more and less detail
    ("User has a dog", "User has a dog, a corgi named Waffle", 0.8, UPDATE),
    ("User has a dog, a corgi named Waffle", "User has a dog", 0.8, SKIP),
]


@pytest.mark.parametrize(("known", "new", "cosine", "expected"), PAIRS)
def test_a_newer_statement(
    known: str,
    new: str,
    cosine: float,
    expected: ReconcileAction,
    make_candidate: MakeCandidate,
    make_hit: MakeHit,
) -> None:
    assert reconcile(make_candidate(new), [make_hit(known, cosine)]).action is expected


@pytest.mark.parametrize(("known", "new", "cosine", "expected"), [pair for pair in PAIRS if pair[3] is UPDATE])
def test_an_older_statement_never_supersedes_a_newer_memory(
    known: str,
    new: str,
    cosine: float,
    expected: ReconcileAction,
    make_candidate: MakeCandidate,
    make_hit: MakeHit,
) -> None:
    """What an update has superseded and is extracted again, for example after a crash, changes nothing."""
    assert reconcile(make_candidate(known, day=0), [make_hit(new, cosine, day=1)]).action is SKIP


def test_an_older_statement_with_more_detail_is_added(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    decision = reconcile(
        make_candidate("User has a dog, a corgi named Waffle", day=0), [make_hit("User has a dog", day=1)]
    )
    assert decision.action is ADD


def test_procedures_for_one_goal_replace_each_other(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("To deploy web: run npm build, then docker push", kind=MemoryType.PROCEDURAL)
    other = make_candidate("To deploy api: run npm build, then docker push", kind=MemoryType.PROCEDURAL)
    newer = make_candidate("To deploy web: run make release", kind=MemoryType.PROCEDURAL)
    assert reconcile(other, [known]).action is ADD
    assert reconcile(newer, [known]).action is UPDATE


def test_another_type_is_no_neighbour(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User lives in Berlin", kind=MemoryType.PROCEDURAL)
    assert reconcile(make_candidate("User lives in Berlin"), [known]).action is ADD


def test_dated_events_are_kept_apart(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User ran a marathon on 2026-02-10", 0.97, kind=MemoryType.EPISODIC)
    new = make_candidate("User ran a marathon on 2026-03-17", kind=MemoryType.EPISODIC)
    assert reconcile(new, [known]).action is ADD


def test_two_extractors_reading_one_turn_store_one_memory(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User cannot stand loud open-plan offices", 0.85, turn_ids=("turn-1",))
    phrased = "User dislikes noisy offices without walls"
    assert reconcile(make_candidate(phrased, turn_ids=("turn-1",)), [known]).action is SKIP
    assert reconcile(make_candidate(phrased, turn_ids=("turn-2",)), [known]).action is ADD


def test_a_paraphrase_anywhere_among_the_neighbours_wins(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    neighbours = [make_hit("User has a dog", 0.9), make_hit("User's dog Waffle is a corgi", 0.8)]
    decision = reconcile(make_candidate("User's dog Waffle is a corgi"), neighbours)
    assert decision.action is SKIP
    assert decision.target == neighbours[1].memory


def test_an_update_names_its_target_and_reason(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User lives in Berlin")
    decision = reconcile(make_candidate("User lives in Munich"), [make_hit("User likes tea"), known])
    assert (decision.target, decision.reason) == (known.memory, "same_attribute_new_value")
