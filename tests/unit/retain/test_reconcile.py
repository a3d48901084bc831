"""Add, update, refine, retract, skip or flag, from what two statements say."""

from dataclasses import replace

import pytest

from semrouter_memory.model import Form, Hit, MemoryType, ReconcileAction
from semrouter_memory.retain.reconciling.reconcile import grey, reconcile

from .conftest import MakeCandidate, MakeHit

ADD, UPDATE, SKIP = ReconcileAction.ADD, ReconcileAction.UPDATE, ReconcileAction.SKIP
REFINE, RETRACT, FLAG = ReconcileAction.REFINE, ReconcileAction.RETRACT, ReconcileAction.FLAG

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
    ("用户的例会在周二下午三点", "用户的例会改到周四上午十点", 0.9, UPDATE),
    ("用户的预算是5000元", "用户的预算是8000元", 0.9, UPDATE),
    # contradiction, and what only looks like one
    ("User likes sushi", "User does not like sushi any more", 0.8, RETRACT),
    ("User works at Acme", "User no longer works at Acme", 0.9, RETRACT),
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
    ("User has a dog", "User has a dog, a corgi named Waffle", 0.8, REFINE),
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


OUTDATED = [pair for pair in PAIRS if pair[3] in {UPDATE, RETRACT}]


@pytest.mark.parametrize(("known", "new", "cosine", "expected"), OUTDATED)
def test_a_statement_that_arrives_after_what_replaced_it_is_history_from_the_start(
    known: str,
    new: str,
    cosine: float,
    expected: ReconcileAction,
    make_candidate: MakeCandidate,
    make_hit: MakeHit,
) -> None:
    newer = make_hit(new, cosine, day=1)
    decision = reconcile(make_candidate(known, day=0), [newer])
    assert (decision.action, decision.successor, decision.targets) == (ADD, newer.memory, ())


@pytest.mark.parametrize(("known", "new", "cosine", "expected"), OUTDATED)
def test_what_is_history_already_is_not_written_again(
    known: str,
    new: str,
    cosine: float,
    expected: ReconcileAction,
    make_candidate: MakeCandidate,
    make_hit: MakeHit,
) -> None:
    """What an update has superseded is extracted again, for example after a crash."""
    newer = make_hit(new, cosine, day=1)
    old = replace(make_hit(known, day=0).memory, superseded_at=newer.memory.observed_at, superseded_by=newer.memory.id)
    decision = reconcile(make_candidate(known, day=0), [newer], [Hit(old, cosine, cosine)])
    assert (decision.action, decision.targets) == (SKIP, (old,))


def test_a_statement_between_two_others_takes_its_place_in_the_chain(
    make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    last = make_hit("User lives in Rome", day=9)
    first = replace(make_hit("User lives in Berlin", day=0).memory, superseded_at=last.memory.observed_at)
    decision = reconcile(make_candidate("User lives in Munich", day=4), [last], [Hit(first, 0.8, 0.8)])
    assert (decision.successor, decision.targets) == (last.memory, (first,))


def test_a_statement_ends_all_that_it_makes_obsolete(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = [make_hit("User works at Acme as a dispatcher"), make_hit("User works at Acme"), make_hit("User likes tea")]
    decision = reconcile(make_candidate("User no longer works at Acme"), known)
    assert (decision.action, decision.targets) == (RETRACT, (known[0].memory, known[1].memory))


def test_a_short_name_that_fits_two_memories_is_left_open(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = [make_hit("User's budget for the kitchen is $10,000"), make_hit("User's budget for the garden is $4,000")]
    decision = reconcile(make_candidate("User's budget is now $15,000"), known)
    assert (decision.action, decision.targets) == (FLAG, tuple(hit.memory for hit in known))


def test_two_values_of_one_time_contradict_each_other(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User lives in Berlin", day=1)
    decision = reconcile(make_candidate("User lives in Munich", day=1), [known])
    assert (decision.action, decision.targets) == (FLAG, (known.memory,))


@pytest.mark.parametrize("known_day", [0, 1])
def test_a_value_that_says_it_is_new_is_the_newer_of_one_time(
    known_day: int, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = make_hit("User lives in Berlin", day=known_day)
    assert reconcile(make_candidate("User moved to Munich", day=1), [known]).action is UPDATE


def test_a_negation_of_one_part_is_left_open(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User likes cats and dogs")
    assert reconcile(make_candidate("User doesn't like dogs"), [known]).action is FLAG


def test_saying_one_side_of_an_open_contradiction_again_decides_it(
    make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    berlin, munich = make_hit("User lives in Berlin"), make_hit("User lives in Munich")
    flagged = replace(berlin.memory, metadata={"flagged": True, "contradicts": [munich.memory.id]})
    decision = reconcile(make_candidate("User lives in Berlin"), [Hit(flagged, 1.0, 1.0), munich])
    assert (decision.action, decision.targets) == (UPDATE, (flagged, munich.memory))


def test_a_session_summed_up_is_neither_repeated_nor_replaced(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    summary = make_hit("User lives in Berlin", 1.0, kind=MemoryType.EPISODIC)
    episode = Hit(replace(summary.memory, source="session"), 1.0, 1.0)
    assert reconcile(make_candidate("User lives in Berlin"), [episode]).action is ADD
    assert reconcile(make_candidate("User lives in Munich"), [episode]).action is ADD


def test_only_near_statements_that_may_be_one_are_worth_a_question(
    make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = [
        make_hit("User grows tomatoes on the balcony of the old house", 0.8),
        make_hit("User's brother grows tomatoes on the balcony of the old house", 0.8),
        make_hit("User grows grapes behind the garage", 0.6),
    ]
    candidate = make_candidate("User grows peppers on the balcony of the old house")
    assert grey(candidate, known, reconcile(candidate, known)) == (known[0].memory,)


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


@pytest.mark.parametrize("kind", [MemoryType.EPISODIC, MemoryType.PROCEDURAL])
def test_the_same_thing_said_as_two_types_is_one_memory(
    kind: MemoryType, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = make_hit("User wants replies in German", kind=kind)
    assert reconcile(make_candidate("User wants replies in German"), [known]).action is SKIP
    assert reconcile(make_candidate("User wants replies in Dutch now"), [known]).action is UPDATE


def test_a_lesson_is_no_neighbour_of_a_statement(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User lives in Berlin", kind=MemoryType.REFLECTIVE)
    assert reconcile(make_candidate("User lives in Berlin"), [known]).action is ADD


def test_dated_events_are_kept_apart(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User ran a marathon on 2026-02-10", 0.97, kind=MemoryType.EPISODIC)
    new = make_candidate("User ran a marathon on 2026-03-17", kind=MemoryType.EPISODIC)
    assert reconcile(new, [known]).action is ADD


def test_two_extractors_reading_one_turn_store_one_memory(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User cannot stand loud open-plan offices", 0.85, turn_ids=("turn-1",))
    phrased = "User dislikes noisy offices without walls"
    assert reconcile(make_candidate(phrased, turn_ids=("turn-1",)), [known]).action is SKIP


def test_a_paraphrase_anywhere_among_the_neighbours_wins(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    neighbours = [make_hit("User has a dog", 0.9), make_hit("User's dog Waffle is a corgi", 0.8)]
    decision = reconcile(make_candidate("User's dog Waffle is a corgi"), neighbours)
    assert decision.action is SKIP
    assert decision.targets == (neighbours[1].memory,)


def test_an_update_names_its_target_and_reason(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = make_hit("User lives in Berlin")
    decision = reconcile(make_candidate("User lives in Munich"), [make_hit("User likes tea"), known])
    assert (decision.targets, decision.reason) == ((known.memory,), "same_attribute_new_value")


# -- quotes ------------------------------------------------------------------------------------------------------------

LONG = "I finally booked the flight. We live in Berlin now, my sister too. The cat came with us and hates it."


def test_the_same_quote_is_confirmed(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = quoted(make_hit(LONG, 1.0))
    decision = reconcile(replace(make_candidate(LONG.lower()), form="quote"), [known])
    assert (decision.action, decision.targets) == (SKIP, (known.memory,))


@pytest.mark.parametrize(
    "new", ["I live in Munich now", "We moved to Munich. The cat is fine with it, my sister is not."]
)
def test_a_quote_of_several_facts_is_never_superseded(
    new: str, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = quoted(make_hit(LONG, 0.8))
    assert reconcile(replace(make_candidate(new), form="quote"), [known]).action is ADD
    assert reconcile(make_candidate("User moved to Munich"), [known]).action is ADD


def test_a_quote_of_several_facts_supersedes_nothing(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = [quoted(make_hit("I live in Munich", 0.8)), make_hit("User lives in Munich", 0.8)]
    assert reconcile(replace(make_candidate(LONG), form="quote"), known).action is ADD


@pytest.mark.parametrize(
    ("context", "action"), [("How many kids do you have?", SKIP), ("How many cats do you have?", ADD)]
)
def test_the_same_answer_to_another_question_is_added(
    make_candidate: MakeCandidate, make_hit: MakeHit, context: str, action: ReconcileAction
) -> None:
    known = quoted(make_hit("I have two", 0.9), context="How many kids do you have?")
    candidate = replace(make_candidate("I have two"), form="quote", context=context)
    assert reconcile(candidate, [known]).action is action


@pytest.mark.parametrize("form", ["quote", "statement"])
def test_a_quote_of_one_short_sentence_is_superseded_like_a_statement(
    form: Form, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = quoted(make_hit("my budget for the loft is $8,000", 0.9))
    new = replace(make_candidate("User's budget for the loft is now $9,500"), form=form)
    decision = reconcile(new, [known])
    assert (decision.action, decision.targets) == (UPDATE, (known.memory,))


def test_a_quote_leaves_statements_to_the_statements(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    known = [make_hit("User lives in Berlin", 0.9)]
    for said in ("I live in Berlin", "I moved to Munich"):
        assert reconcile(replace(make_candidate(said), form="quote"), known).action is ADD


def test_two_short_quotes_that_cannot_both_be_true_are_flagged(
    make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    known = quoted(make_hit("I am vegetarian", 0.6))
    decision = reconcile(replace(make_candidate("I eat steak every day"), form="quote"), [known])
    assert (decision.action, decision.targets) == (FLAG, (known.memory,))


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (
            "We live in Leeds with our greyhound Biscuit.",
            "We moved from Leeds to York in May, finally more space! It's quiet",
        ),
        ("I take the bus. The gym is at PowerHouse, three times a week", "I quit the gym at PowerHouse"),
        ("My brother Teo lives in Girona", "Teo moved to Cadiz last month"),
        ("Our son's judo class is on Mondays at 5.", "judo moved, it's fridays at 6 from now on"),
        ("Our team has 6 people and we do weekly retros", "we hired two, so we're 8 now"),
        ("our choir is Ada, Bea and Cleo", "Bea left the choir"),
        ("My brother is allergic to nuts, can he eat pho?", "no, my sister is allergic to nuts, not my brother"),
        ("I live in Bonn with my dog", "had to move to Kiel for work, so I'm looking for a vet again"),
        ("my phone plan is 12 gb with lebara", "went up to the 40 gb plan today"),
    ],
)
def test_a_quote_of_which_a_part_seems_to_have_changed_stays_and_is_marked(
    known: str, new: str, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    earlier = quoted(make_hit(known, 0.6))
    decision = reconcile(replace(make_candidate(new), form="quote"), [earlier])
    assert (decision.action, decision.targets, decision.outdated) == (ADD, (), (earlier.memory,))


def test_what_seems_to_change_many_quotes_marks_none(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    candidate = replace(make_candidate("We moved from Leeds to York in May"), form="quote")
    known = [quoted(make_hit(f"We live in Leeds. {each}", 0.6)) for each in ("Lovely!", "Busy!", "Wet!", "Big!")]
    assert len(reconcile(candidate, known[:3]).outdated) == len(known[:3])
    assert reconcile(candidate, known).outdated == ()


def test_a_quote_that_tells_of_no_change_marks_nothing(make_candidate: MakeCandidate, make_hit: MakeHit) -> None:
    earlier = quoted(make_hit("We live in Leeds. The dog is called Biscuit.", 0.6))
    for new in ("We like Leeds. It is never boring", "My sister moved to Leeds. She likes it"):
        assert reconcile(replace(make_candidate(new), form="quote"), [earlier]).outdated == ()


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (
            "Thanks, Nora! This choir has been amazing. I couldn't have done it without them.",
            "I started playing the oboe five years ago; it's been an amazing way to relax.",
        ),
        (
            "I gave a talk at the library about bees. It was a great evening.",
            "Since we last spoke I took my kids to the library. They had a great time.",
        ),
        (
            "We love painting together lately. Here's our latest work.",
            "Seven years now, and I've finally found what I love: painting and pottery. It's so calming.",
        ),
        (
            "Pippin is great at catching balls. He never misses.",
            "Something great happened. Last Friday I started introducing Pippin to the puppy.",
        ),
        (
            "I'll be looking forward to it. By the way, yesterday I went bowling and got two strikes.",
            "That sounds good. By the way, today I decided to spend time with my pets again.",
        ),
    ],
)
def test_a_change_with_some_words_in_common_marks_nothing(
    known: str, new: str, make_candidate: MakeCandidate, make_hit: MakeHit
) -> None:
    earlier = quoted(make_hit(known, 0.6))
    assert reconcile(replace(make_candidate(new), form="quote"), [earlier]).outdated == ()


def quoted(hit: Hit, *, context: str = "") -> Hit:
    memory = replace(hit.memory, metadata={**hit.memory.metadata, "form": "quote", "context": context})
    return replace(hit, memory=memory)
