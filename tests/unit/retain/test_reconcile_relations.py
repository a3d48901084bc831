"""How two statements stand to each other, over many domains: what is one attribute and what is not."""

import pytest

from semrouter_memory.retain.reconciling.meaning import meaning
from semrouter_memory.retain.reconciling.relate import relate
from semrouter_memory.retain.reconciling.relation import Relation

SIDE_BY_SIDE = [
    ("User lives in Berlin", "User's company is based in Munich"),
    ("User works at Acme", "User works at night"),
    ("User works at Acme", "User joined a gym"),
    ("User works at Acme", "User joined the Berlin Marathon"),
    ("User works as a barista at Starbucks", "User is a student at MIT"),
    ("User works at Acme", "User is a member at FitOne"),
    ("User works at Acme as an engineer", "User also works as a tutor on weekends"),
    ("User lives in Berlin", "User plans to move to Munich"),
    ("User lives in Berlin", "User is visiting Munich this week"),
    ("User lives in Berlin", "User's parents live in Munich"),
    ("User lives in Berlin", "User grew up in Hamburg"),
    ("User lives in Berlin", "User was born in Hamburg"),
    ("User has two cats", "User's sister has three cats"),
    ("User has two cats", "User has three dogs"),
    ("User's car insurance costs $640 a year", "User sold the car"),
    ("User wants to buy a car", "User has no car"),
    ("User likes football", "User doesn't like watching football on TV"),
    ("User has a budget of $500 for shoes", "User now has a budget of $300 for jackets"),
    ("User's doctor is Dr. Weiss", "User's eye doctor is Dr. Kim"),
    ("User's first marathon was Vienna", "User's second marathon was Berlin"),
    ("User's flight to Rome leaves at 9:00", "User's flight from Rome leaves at 18:00"),
    ("User takes ibuprofen 400 mg", "User takes paracetamol 500 mg"),
    ("User's son Leo is 5", "User's son Max is 7"),
    ("User is learning Spanish", "User is learning Dutch"),
    ("User now speaks Korean", "User speaks Italian"),
    ("User has a cat named Tom", "User now has a dog named Rex"),
    ("User plays tennis on Mondays", "User plays chess on Thursdays"),
    ("User's favorite book is Dune", "User's favorite movie is Alien"),
    ("User's work phone is 555-0101", "User's private phone is 555-0202"),
    ("User stopped eating meat", "User eats fish on Fridays"),
    ("User paid $300 for the flight", "User paid $450 for the hotel"),
    ("User ran 5 km on 2026-01-03", "User ran 10 km on 2026-01-10"),
    ("User's meeting with Ann is on Monday", "User's meeting with Bob moved to Tuesday"),
    ("User bought a laptop for $900", "User bought a phone for $600"),
    ("User's project A uses Python 3.11", "User's project B uses Python 3.12"),
    ("User uses Notion for notes", "User switched to Linear for tasks"),
    ("User's rent is $1,200", "User's rent deposit is $2,400"),
    ("User's gym closes at 22:00", "User's gym opens at 6:00"),
    ("User's lease starts on 2026-01-01", "User's lease ends on 2026-12-31"),
    ("User is allergic to nuts", "User is not allergic to shellfish"),
    ("User doesn't eat pork", "User doesn't eat shellfish"),
    ("User's mother is a nurse", "User is a nurse"),
    ("User owns a house in Porto", "User rents a flat in Lisbon"),
    ("User prefers tea in the morning", "User prefers wine in the evening"),
    ("User wants replies in German", "User now wants code comments in English"),
    ("User's daughter is 6", "User's daughter weighs 20 kg"),
    ("User cancelled the Hulu subscription", "User has a Netflix subscription"),
    ("User's salary is $90,000", "User's bonus is $9,000"),
    ("User likes cats", "User is allergic to cats"),
    ("User is married to Ana", "User's brother is divorced"),
    ("User is on vacation until May 5", "User's exam is on May 9"),
    ("User's goal is to run a marathon", "User's goal is to learn French"),
    ("User sleeps 6 hours a night", "User works 9 hours a day"),
    ("User works from home on Fridays", "User works from the office on Mondays"),
    ("User's server has 32 GB of RAM", "User's server has 4 TB of disk"),
    ("User has lived in Lyon since 2019", "User lived in Paris until 2018"),
    ("User moved to Linux in 2020", "User lives in Berlin"),
    ("User lives in Berlin", "User moved to Notion for notes"),
    ("User's laptop is a Dell", "User's wife's laptop is a MacBook"),
    ("User's budget for food is $400", "User's budget for rent is now $1,500"),
    ("User's dentist is Dr. Ray", "User has a dentist appointment on June 3"),
    ("用户喜欢咖啡", "用户的妈妈不喜欢咖啡"),
    ("用户在学日语", "用户在学韩语"),
    ("用户的生日是5月1日", "用户妻子的生日是6月2日"),
    ("用户有一只狗", "用户有两只猫"),
    ("用户住在上海", "用户的公司在苏州"),
    ("用户不吃牛肉", "用户不吃羊肉"),
    ("用户周一开会", "用户周三健身"),
    ("User is training for the Boston Marathon", "User ran the Boston Marathon in 2019"),
    ("User is looking for a flat in Bonn", "User found a wallet on the train"),
    ("User rents a garage in Turin", "User bought a house in Turin"),
    ("User wants to buy a bike", "User bought a helmet"),
    ("User's wife is pregnant", "User's sister gave birth to twins"),
    ("User's daughter attends Lincoln High School", "User's son transferred to Jefferson High School"),
    ("User is single", "User and Paolo called off the engagement"),
    ("User's daughter Mina goes to Birchwood School", "User's daughter moved to Riverside School"),
]

SAME_OR_COVERED = [
    ("User has a severe allergy to penicillin", "The user is severely allergic to penicillin"),
    ("User drives a 2018 Honda Civic", "User's car is a 2018 Honda Civic"),
    ("User works remotely on Mondays", "The user works from home on Mondays"),
    ("User takes the train to work", "The user commutes to work by train"),
    ("User's annual salary is £52,000", "User earns 52,000 pounds a year"),
    ("User goes swimming twice a week", "The user swims two times a week"),
    ("User's standup is at 9:30 am", "The user has a standup at 09:30"),
    ("用户在腾讯工作", "用户就职于腾讯"),
    ("用户每天早上六点起床", "用户早上6点起床"),
    ("User plays the cello in an orchestra", "User is a cellist"),
    ("User has two kids", "The user is a parent of two"),
    ("User cycles to work", "User commutes by bicycle"),
    ("User's company has 40 employees", "User's company employs 40 people"),
    ("User does not drink alcohol", "User is a teetotaler"),
    ("用户喜欢爬山", "用户爱爬山"),
]

REPLACED = [
    ("User is 34 years old", "User turned 35"),
    ("User lives at 12 Elm Street", "User's new address is 48 Oak Avenue"),
    ("User uses Trello to manage tasks", "User switched to Linear to manage tasks"),
    ("User's car is a Toyota Yaris", "User replaced the Toyota Yaris with a Kia EV3"),
    ("User's flight to Tokyo leaves on May 3", "User's flight to Tokyo was rebooked for May 5"),
    ("User wants replies in English", "User now wants replies in German"),
    ("User's daughter attends Lincoln School", "User's daughter switched to Roosevelt Middle School"),
    ("User's default branch is called master", "User renamed the default branch to main"),
    ("用户的工资是每月一万五千元", "用户的工资涨到每月一万八千元"),
    ("用户的会议在周三下午三点", "用户的会议改到周四下午三点"),
    ("用户的手机是小米13", "用户的手机换成了华为Mate 60"),
    ("User's daughter goes to Maple Primary School", "User's daughter switched to Oak Hill School"),
    ("User weighs 82 kg", "User's weight is down to 78 kg"),
    ("User's cholesterol is 240", "User's cholesterol has come down to 195"),
    ("User is looking for a job", "User found a job at Kestrel Labs"),
    ("User rents a flat in Lyon", "User bought a flat in Lyon"),
    ("User is unemployed", "User started working at Bosch as a welder"),
    ("User lives with two roommates", "User lives alone now"),
    ("User is pregnant", "User gave birth to a boy on 2026-06-10"),
    ("User is single", "User is in a relationship with Noor"),
    ("User is vegetarian", "User eats meat again"),
    ("User pays 39 euros a month for internet", "User's internet bill went up to 45 euros a month"),
    ("用户在阿里巴巴上班", "用户跳槽去了字节跳动"),
]

ENDED = [
    ("User owns a motorcycle", "User sold the motorcycle"),
    ("User plans to adopt a second dog", "User decided not to adopt a second dog"),
    ("User is renting a flat in Denver", "User bought a house in Denver and no longer rents"),
    ("User runs three times a week", "User stopped running because of the knee"),
    ("User is a smoker", "User quit smoking"),
    ("用户正在健身", "用户已经不健身了"),
    ("User plans to run the Berlin marathon", "User won't run the Berlin marathon because of an injury"),
    ("User attends the evening pottery course", "User dropped out of the evening pottery course"),
    ("User smokes", "User quit smoking in March"),
    ("User works at Acme as a welder", "User was laid off from Acme"),
    ("User intends to learn Welsh", "User gave up the idea of learning Welsh"),
    ("User is a vegan", "User is no longer vegan"),
    ("用户是健身房会员", "用户退掉了健身房会员"),
]


@pytest.mark.parametrize(("one", "other"), SIDE_BY_SIDE)
def test_both_can_be_true(one: str, other: str) -> None:
    assert relate(meaning(other), meaning(one)) is Relation.DISTINCT
    assert relate(meaning(one), meaning(other)) is Relation.DISTINCT


@pytest.mark.parametrize(("known", "new"), SAME_OR_COVERED)
def test_other_words_for_the_same_say_nothing_new(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) in {Relation.SAME, Relation.COVERED}


@pytest.mark.parametrize(("known", "new"), REPLACED)
def test_a_new_value_replaces_the_old_one(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) in {Relation.REPLACES, Relation.REPLACES_ONE}


@pytest.mark.parametrize(("known", "new"), ENDED)
def test_what_came_to_its_end_is_contradicted(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.CONTRADICTS


@pytest.mark.parametrize(
    ("known", "new"),
    [("User likes olive oil", "User does not like olives"), ("User likes fish tacos", "User doesn't like fish")],
)
def test_a_dislike_leaves_open_what_only_has_the_word_in_its_name(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.PARTLY


def test_a_dislike_of_the_thing_itself_ends_the_liking() -> None:
    assert relate(meaning("User does not like olives"), meaning("User likes olives on pizza")) is Relation.CONTRADICTS


def test_an_engagement_that_is_called_off_ends_it() -> None:
    called_off = meaning("User and Rosa called off the engagement")
    assert relate(called_off, meaning("User is engaged to Rosa")) in {Relation.REPLACES, Relation.CONTRADICTS}
    assert relate(called_off, meaning("User is engaged to Paolo")) is Relation.DISTINCT


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("User has a car", "User's car insurance renews in May"),
        ("User uses Python", "User teaches Python to kids"),
        ("User works with databases", "User's db server is Postgres 15"),
    ],
)
def test_another_fact_about_the_same_thing_is_no_longer_form_of_it(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.DISTINCT


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("User has a call at 10:30 on Wednesday", "User has a call at 16:00 on Wednesday"),
        ("User has an appointment on 2 June", "User has an appointment on 9 June"),
    ],
)
def test_two_appointments_of_a_kind_are_two_unless_one_was_moved(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.DISTINCT
    assert relate(meaning(f"{new} now"), meaning(known)) in {Relation.REPLACES, Relation.REPLACES_ONE}


def test_what_was_reached_is_more_than_what_was_hoped_for() -> None:
    newer, older = meaning("User got the place at Lund"), meaning("User is on the reserve list for a place at Lund")
    assert relate(newer, older) is not Relation.COVERED
