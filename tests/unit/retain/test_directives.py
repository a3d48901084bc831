"""What users say as themselves, and what they tell the assistant about the conversation: withdraw it, play a role."""

import pytest

from semrouter_memory.retain.directives import spoken, withdraws

from .conftest import MakeTurn


def said(make_turn: MakeTurn, *texts: str) -> list[str]:
    return [own.strip() for own in spoken([make_turn(text, number=number) for number, text in enumerate(texts)])]


def test_confidences_and_texts_of_others_are_left_out(make_turn: MakeTurn) -> None:
    turns = ('I live in Bergen. She wrote "I own four boats and a house"', "off the record: ugh")
    own = said(make_turn, *turns)
    assert own[0].startswith("I live in Bergen.")
    assert "boats" not in own[0]
    assert own[1] == ""


@pytest.mark.parametrize(
    "opening",
    [
        "let's role-play, you are the innkeeper",
        "Pretend to be my landlord",
        "act as a pirate",
        "you are now DungeonBot",
        "*draws a sword and shouts*",
        "我们来玩角色扮演，你来当医生",
        "I want you to act as a recruiter who interviews me",
        "请你扮演一位面试官",
    ],
)
@pytest.mark.parametrize("end", ["ok, out of character now", "stop the role-play", "game over", "回到现实"])
def test_a_role_play_lasts_until_it_is_ended(make_turn: MakeTurn, opening: str, end: str) -> None:
    own = said(make_turn, "I live in Bonn", opening, "I live in a castle", "and I own a dragon", end, "I have two cats")
    assert own[0] == "I live in Bonn"
    assert own[2:4] == ["", ""]
    assert own[5] == "I have two cats"


@pytest.mark.parametrize(
    "opening",
    [
        "You are now my meal planner.",
        "Act as an experienced immigration lawyer.",
        "act as a German teacher",
        "you're now my running coach, ok?",
        "你现在是我的健身教练。",
    ],
)
def test_who_helps_the_user_is_told_what_is_true(make_turn: MakeTurn, opening: str) -> None:
    assert said(make_turn, opening, "My son is allergic to nuts") == [opening, "My son is allergic to nuts"]


@pytest.mark.parametrize(
    "message",
    [
        "our gateway should act as a proxy for two services",
        "I play in a role playing group every second Thursday",
        "I'm the dungeon master of our group",
        "He had to pretend to be ill",
        "I have a mock interview at the career centre on Monday",
        "*sigh* what a day",
        "女儿在学校话剧里扮演白雪公主",
        "他假装生病没来上班",
    ],
)
def test_a_play_that_is_only_told_of_begins_none(make_turn: MakeTurn, message: str) -> None:
    assert said(make_turn, message, "I live in Bonn") == [message, "I live in Bonn"]


def test_the_next_turn_takes_back_one_turn(make_turn: MakeTurn) -> None:
    own = said(make_turn, "I have two cats", "I live in Bonn", "scratch that, forget what I just said")
    assert own[:2] == ["I have two cats", ""]


@pytest.mark.parametrize(
    "message",
    [
        *("scratch that", "No, forget that.", "just kidding!", "please don't remember that", "jk", "别记这个"),
        *("Scratch that. I live in Bonn.", "actually, forget what I just told you", "忘了我刚才说的话", "刚才说的不算"),
        *("Scrap that.", "Delete what I just said", "forget the last thing I said", "I take that back", "收回刚才的话"),
    ],
)
def test_what_withdraws(message: str) -> None:
    assert withdraws(message)


@pytest.mark.parametrize(
    "message",
    [
        *("don't forget that I'm vegan", "I scratched my arm", "forget-me-nots are blue", "no", "remember that"),
        *(
            "don't remember that guy's name",
            "don't save this. I live in Bonn",
            "forget it",
            "scratch that, it's 15,000",
        ),
        *("ok", "", "不要记错了"),
    ],
)
def test_what_does_not_withdraw(message: str) -> None:
    assert not withdraws(message)
