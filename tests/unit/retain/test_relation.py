"""What replaces what is known, what repeats it, and what stays beside it: promises over many domains."""

import pytest

from semrouter_memory.retain.reconciling.relation import Pair, Relation, relate
from semrouter_memory.retain.reconciling.statement import statement

SIMILARITY = 0.75

REPLACED = [
    ("User's budget for the loft is $8,000", "User's budget for the loft is now $9,500"),
    ("User's budget for the Hawaii trip is $10,000", "User raised the budget for the Hawaii trip to $15,000"),
    ("User lives in Bremen", "User lives in Kiel"),
    ("User lives in Bremen", "User moved to Kiel in March"),
    ("User works as an optician", "User works as a paramedic"),
    ("User works at Fennwick", "User works at Oakhurst now"),
    ("User's favourite food is gnocchi", "User's favourite food is laksa"),
    ("User's favorite book is Emma", "User's favorite book is now Beloved"),
    ("User's favourite sport is rowing", "User's favourite sport is fencing"),
    ("User's car is a Saab 900", "User's car is a Cupra Born"),
    ("User's car is a Saab 900", "User's new car is a Cupra Born"),
    ("User's dog's name is Biscuit", "User's dog's name is now Barley"),
    ("User's dose of lisinopril is 10 mg", "User's dose of lisinopril was increased to 20 mg"),
    ("User's job interview is on 2026-05-04", "User's job interview was moved to 2026-05-11"),
    ("User has four goats", "User has six goats now"),
    ("User's solicitor is Brandt", "User's solicitor is Okafor"),
    ("User's printer is an Epson", "User's printer is a Canon"),
    ("User is 52", "User turned 53"),
    ("User prefers rail over road", "User prefers road over rail"),
    ("User is single", "User is dating Mila"),
    ("User plays in the brass band", "User no longer plays in the brass band"),
    ("User smokes", "User quit smoking"),
    ("User works at Fennwick as a buyer", "User was laid off from Fennwick"),
    ("User has a gym membership at Atlas", "User cancelled the Atlas gym membership"),
    ("User's choir meets on Mondays", "User's choir moved from Mondays to Wednesdays"),
    ("User's blood type is A+", "User's blood type is A-"),
    ("User's budget is $500", "User's budget is €500"),
    ("User's freezer is set to -5 degrees", "User's freezer is set to 5 degrees"),
    ("User's handle is foo-bar", "User's handle is foo_bar"),
    ("User no longer works at Fennwick", "User works at Fennwick again"),
    ("User quit smoking", "User smokes again"),
    ("User is not a vegetarian any more", "User is a vegetarian again"),
    ("用户不再吃肉", "用户又吃肉了"),
    ("用户住在洛阳", "用户搬到郑州了"),
    ("用户的预算是三千元", "用户的预算现在是四千元"),
    ("用户的预算是1万", "用户的预算现在是1万5"),
    ("预算是10K", "预算现为15K"),
    ("用户的例会在周二下午三点", "用户的例会改到周四上午十点"),
    ("用户在邮局工作", "用户跳槽去了快递公司"),
    ("I take 5 mg of bisoprolol", "the doctor upped my bisoprolol to 7.5 mg"),
    ("the newsletter is written in Mailchimp", "the newsletter has been migrated from Mailchimp to Ghost"),
    ("our accountant is Mr. Holm", "Mr. Holm retired, our accountant is Ms. Dray now"),
]

BESIDE = [
    ("User's budget for the Crete trip is $2,000", "User's budget for the Malta trip is $2,000"),
    ("User's budget for the Crete trip is $2,000", "User's budget for the Malta trip is $3,500"),
    ("User is planning a trip to Crete", "User is planning a trip to Malta"),
    ("User's son Anton is 6", "User's son Boris is 9"),
    ("User's daughter Vera has asthma", "User's daughter Klara has asthma"),
    ("User's car is a Saab 900", "User's second car is a Fiat 500"),
    ("User's car is a Saab 900", "User's wife's car is a Cupra Born"),
    ("User lives in Bremen", "User's sister lives in Kiel"),
    ("User lives in Bremen", "User wants to move to Kiel"),
    ("User lives in Bremen", "User was born in Kiel"),
    ("User works at Fennwick", "User works at night"),
    ("User's mother is a judge", "User's grandmother is a judge"),
    ("User likes dates", "User likes figs"),
    ("User is allergic to walnuts", "User is allergic to pollen"),
    ("User speaks Farsi", "User is learning Finnish"),
    ("User does not eat pork", "User does not eat shellfish"),
    ("User likes playing golf", "User doesn't like watching golf"),
    ("User's shop opens at 9:00", "User's shop closes at 18:30"),
    ("User's train to Lyon leaves at 8:10", "User's train from Lyon leaves at 19:40"),
    ("User's car insurance renews on 1 May", "User's home insurance renews on 1 May"),
    ("User's flat has 62 square metres", "User's rent is 620 euros"),
    ("On 2026-01-04 the user ran 10 km", "On 2026-02-08 the user ran 12 km"),
    ("User uses Ruby for the billing service", "User uses Elixir for the chat service"),
    ("User drives a Saab 900", "User also has a new Vespa"),
    ("User owns a flat in Bremen", "User no longer lives in Bremen"),
    ("User studied in Bremen", "User no longer lives in Bremen"),
    ("User plays chess at Fennwick", "User no longer works at Fennwick"),
    ("User works with Mila", "User is no longer dating Mila"),
    ("User writes C++", "User writes C#"),
    ("User got an A- in maths", "User got an A+ in maths"),
    ("用户的爸爸爱喝酒", "用户的妈妈不喝酒"),
    ("用户住在洛阳", "用户的父母住在郑州"),
    ("用户对芒果过敏", "用户对虾过敏"),
    ("the electrician comes on the 3rd", "the painter comes on the 8th instead"),
    ("rent for the studio is 700", "storage rent went up to 85"),
    ("my interview is on 4 May", "Tomas's interview was moved to 11 May"),
    ("I used to live in Bremen", "I live in Kiel now"),
    ("去韩国的预算是六千", "修车的预算改成七千"),
]

CHANGED_BY = [
    ("Budget for Crete is $10,000", "Added $2,000 to Crete budget"),
    ("User's rent is 900 euros", "User's rent went up by 50 euros"),
    ("User's savings are $5,000", "User put another $500 into the savings"),
    ("User's loan is $20,000", "User paid $3,000 off the loan"),
    ("User's deadline is June 3", "User's deadline was extended by two weeks"),
    ("User's garage has room for 3 cars", "User's garage got room for 2 more cars"),
    ("用户的房租是900欧元", "用户的房租涨了50欧元"),
    ("用户的存款是5万元", "用户的存款又加了5千元"),
]

TOTAL = [
    ("User's budget for Crete is $10,000", "User raised the budget for Crete by $2,000 to $12,000"),
    ("User's rent is 900 euros", "User's rent went up to 950 euros"),
    ("User added $2,000 to the Crete budget", "User's Crete budget is now $12,000"),
    ("用户的房租是900欧元", "用户的房租涨到950欧元了"),
]

REPEATED = [
    ("User lives in Bremen", "The user lives in Bremen."),
    ("User is allergic to walnuts", "The user has a walnut allergy"),
    ("User's budget for the loft is $8,000", "User has a budget of 8K dollars for the loft"),
    ("User prefers rail over road", "User likes rail more than road"),
    ("User adopted a tortoise on 2026-04-02", "User adopted a tortoise on April 2, 2026"),
    ("User has a tortoise named Olga that bites", "User has a tortoise"),
    ("用户每天六点起床", "用户每天6点起床"),
]

MORE = [
    ("User has a tortoise", "User has a tortoise, an old one named Olga"),
    ("User works in shipping", "User works in shipping as a customs clerk at the port of Varna"),
    ("User is allergic to nuts", "User is allergic to nuts, above all walnuts and hazelnuts"),
]

OPEN = [
    ("User likes cats and dogs", "User doesn't like dogs"),
    ("User likes olives on pizza", "User does not like olives"),
]


def related(older: str, newer: str, similarity: float) -> Relation:
    (relation,) = relate([Pair(statement(older), statement(newer), similarity)])
    return relation


@pytest.mark.parametrize(("known", "new"), REPLACED)
def test_a_new_value_replaces_the_old_one(known: str, new: str) -> None:
    assert related(known, new, SIMILARITY) is Relation.REPLACES


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("I never eat pasta at home", "My home oven is broken since Monday"),
        ("I don't smoke at home", "My home insurance ended in May"),
        ("I never drink office coffee", "I left my keys at the office"),
    ],
)
def test_a_change_of_something_else_does_not_replace_what_is_denied(known: str, new: str) -> None:
    (related,) = relate([Pair(statement(known), statement(new), 0.45)])
    assert related in {Relation.OUTDATES, Relation.UNRELATED}


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("My flatmate is Colm", "Colm moved out, Petra has his room"),
        ("My daughter Edie is in year 4", "Edie started year 5 this week"),
        ("I'm married to Jo", "Jo and I got divorced in the spring"),
    ],
)
def test_what_is_likely_to_have_changed_is_marked(known: str, new: str) -> None:
    assert related(known, new, 0.7) is Relation.OUTDATES


@pytest.mark.parametrize(("one", "other"), BESIDE)
def test_neither_of_two_that_can_both_be_true_replaces_or_repeats_the_other(one: str, other: str) -> None:
    for older, newer in ((one, other), (other, one)):
        assert related(older, newer, SIMILARITY) in {Relation.UNRELATED, Relation.CONTRADICTS}


@pytest.mark.parametrize(("known", "new"), CHANGED_BY)
def test_by_how_much_a_value_changed_does_not_replace_the_value(known: str, new: str) -> None:
    assert related(known, new, SIMILARITY) is Relation.UNRELATED


@pytest.mark.parametrize(("known", "new"), TOTAL)
def test_the_total_after_a_change_replaces_the_value(known: str, new: str) -> None:
    assert related(known, new, SIMILARITY) is Relation.REPLACES


@pytest.mark.parametrize(("known", "new"), REPEATED)
def test_other_words_for_the_same_say_nothing_new(known: str, new: str) -> None:
    assert related(known, new, 0.9) is Relation.SAME


@pytest.mark.parametrize(("known", "new"), MORE)
def test_a_statement_that_has_all_of_another_and_more_refines_it(known: str, new: str) -> None:
    assert related(known, new, 0.8) is Relation.REFINES


@pytest.mark.parametrize(("known", "new"), OPEN)
def test_a_denial_of_a_part_is_a_contradiction(known: str, new: str) -> None:
    assert related(known, new, SIMILARITY) is Relation.CONTRADICTS


@pytest.mark.parametrize(("one", "other"), BESIDE[:20] + REPLACED[:20])
def test_what_is_of_another_person_is_never_replaced(one: str, other: str) -> None:
    of_brother = other.replace("User's", "User's brother's").replace("User ", "User's brother ")
    assert related(one, of_brother, 0.9) is Relation.UNRELATED


def test_more_words_do_not_refine_what_is_probably_of_something_else() -> None:
    older, newer = "submission's 30 September", "Nele's submission is 30 September for the masters"
    assert related(older, newer, 0.45) is Relation.UNRELATED
    assert related(older, newer, 0.9) is Relation.REFINES


def test_pairs_that_are_related_together_have_the_relations_that_each_has_alone() -> None:
    tests, person = (statement(f"To deploy: {each}", procedural=True) for each in ("run the tests", "ask Farid"))
    pairs = [
        Pair(tests, person, similarity=0.8),
        *(Pair(statement(one), statement(other), SIMILARITY) for one, other in (*REPLACED, *BESIDE, *REPEATED, *MORE)),
        Pair(statement("User likes jazz"), statement("User likes jazz"), similarity=1.0),
    ]
    assert relate(pairs) == [relation for pair in pairs for relation in relate([pair])]
    assert relate([]) == []


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("User is allergic to peanuts", "User is no longer allergic to pollen"),
        ("User does not eat pork", "User no longer eats beef"),
        ("User's daughter goes to the Waldorf school", "User's daughter has a new bike"),
        ("my rent is 700 a month", "the garage rent has gone up to 76"),
        ("our choir is Ada, Bea and Cleo", "Bea left the choir"),
    ],
)
def test_what_ends_or_changes_of_something_else_replaces_nothing(known: str, new: str) -> None:
    (related,) = relate([Pair(statement(known), statement(new), 0.6)])
    assert related in {Relation.UNRELATED, Relation.OUTDATES}
