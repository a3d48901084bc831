"""Different ways of speaking of one attribute meet in it; what belongs to another owner, place or thing does not."""

import pytest

from semrouter_memory.retain.reconciling.meaning import meaning
from semrouter_memory.retain.reconciling.relate import relate
from semrouter_memory.retain.reconciling.relation import Relation

MEET = [
    ("User drives a Mini", "User's new car is a Volvo"),
    ("User drives an old Peugeot 206", "User has a new car, a Kia Niro"),
    ("User's favorite editor is Sublime Text", "User now prefers Zed as the editor"),
    ("User's manager is Helen", "User reports to Amir since the reorganisation"),
    ("User trains at PureGym", "User switched gyms and goes to Anytime Fitness now"),
    ("User's phone number is +44 7700 900123", "User has a new number: +44 7700 900456"),
    ("User's plumber is Gus", "User hired a different plumber, Lena"),
    ("User is a junior developer", "User was promoted to senior developer in March"),
    ("User's deadline for the thesis is June 1", "User got a thesis extension until June 15"),
    ("User pays for the ChatGPT Plus plan", "User downgraded ChatGPT to the free plan"),
    ("User's car insurance is with Allianz", "User moved the car insurance to AXA"),
    ("User rents a flat in Malmö", "User bought a house in Lund and moved there in March"),
    ("用户用的是安卓手机", "用户换成了iPhone"),
    ("用户的手机号是13800001111", "用户的新号码是13900002222"),
    ("用户开大众", "用户的新车是特斯拉"),
]

APART = [
    ("User's car is a Skoda", "User's company car is a BMW"),
    ("User owns a Honda motorcycle", "User's new car is a Ford Focus"),
    ("User drives a Golf", "User plays golf at the new club"),
    ("User drives a Volvo", "User's wife has a new car, a Fiat"),
    ("User drives a Volvo", "User also has a new Mini"),
    ("User drives a Volvo", "User wants to switch to a Tesla"),
    ("User uses Firefox at home", "User switched to Edge at work"),
    ("User uses Chrome", "User switched to Firefox at work"),
    ("User's mobile number is 0171 5550001", "User's work number is now 0171 5550002"),
    ("User's manager is Dana", "User's new project manager is Olaf"),
    ("User is dating Chloe", "User broke up with the band"),
    ("User's girlfriend is Rosa", "User's brother and Kim broke up"),
    ("User works at Lidl", "User's brother got fired"),
    ("User is going to Rome in June", "User cancelled the Milan trip"),
    ("User is a junior chess coach", "User was promoted to team lead"),
    ("User is on the Netflix premium plan", "User upgraded Dropbox to the business plan"),
    ("User's car insurance is with Allianz", "User moved the home insurance to AXA"),
    ("User was born in Lagos", "User's hometown is now Leeds"),
    ("User works at Spotify", "User uses Spotify for music"),
    ("用户用iPhone", "用户的妻子换成了小米"),
]

OVER = [
    ("User's girlfriend is Rosa", "User and Rosa broke up"),
    ("User's girlfriend is Rosa", "User broke up"),
    ("User works at Lidl", "User got fired"),
    ("User is going to Lisbon in May", "User called off the Lisbon trip"),
    ("用户在华为工作", "用户被裁员了"),
]

ONE = [
    ("User was born in Nairobi", "User's birthplace is Nairobi"),
    ("User's girlfriend is called Marta", "User is dating Marta"),
    ("User's bike is a Canyon Grail", "User rides a Canyon Grail"),
    ("User's boss is Sanjay", "User reports to Sanjay"),
    ("User's wedding venue is Thornby Hall", "User is getting married at Thornby Hall"),
    ("用户在腾讯工作", "用户是腾讯的员工"),
]

MORE = [
    ("User is moving", "User is moving to Tallinn"),
    ("User has a car", "User has a blue Renault Clio from 2019"),
]


@pytest.mark.parametrize(("known", "new"), MEET)
def test_another_value_replaces_the_one_that_was_spoken_of_otherwise(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.REPLACES


@pytest.mark.parametrize(("known", "new"), APART)
def test_what_is_of_another_owner_place_or_thing_stays(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.DISTINCT


@pytest.mark.parametrize(("known", "new"), OVER)
def test_the_end_of_an_attribute_denies_its_value(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.CONTRADICTS


@pytest.mark.parametrize(("known", "new"), ONE)
def test_the_same_value_said_in_another_way_is_the_same(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.SAME


@pytest.mark.parametrize(("known", "new"), MORE)
def test_a_statement_that_fills_what_was_left_open_refines(known: str, new: str) -> None:
    assert relate(meaning(new), meaning(known)) is Relation.REFINES
