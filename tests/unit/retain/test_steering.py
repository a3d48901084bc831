"""Orders to the memory: almost never mistaken on people that were set aside, and what an order is about."""

import json
from collections import Counter
from pathlib import Path

import pytest

from semrouter_memory.retain.steering import Order, command, is_to_be_remembered, pauses, unsteered
from semrouter_memory.retain.subjects import subjects

TRAINING = Path(__file__).parents[3] / "training"
TOLD = [
    ("Forget what I told you about my salary.", Order.FORGET, "my salary"),
    ("Forget what I told you about my budget for Norway", Order.FORGET, "my budget for Norway"),
    ("Forget what I said about the dinner with Kim", Order.FORGET, "the dinner with Kim"),
    ("please forget that I live in Leeds", Order.FORGET, "I live in Leeds"),
    ("Can you delete what you know about my divorce?", Order.FORGET, "my divorce"),
    ("Please erase my old address from your memory.", Order.FORGET, "my old address"),
    ("I'd like you to forget about the loan", Order.FORGET, "the loan"),
    ("Forget about my flat, it's sold.", Order.FORGET, "my flat"),
    ("忘掉我跟你说过的工资的事", Order.FORGET, "工资"),
    ("把我的地址忘了吧", Order.FORGET, "地址"),
    ("No need to remember my car any more.", Order.FORGET, "my car"),
    ("I never want you to remember my diagnosis", Order.FORGET, "my diagnosis"),
    ("Strike my bank details from your records.", Order.FORGET, "my bank details"),
    ("请忘掉我关于膝盖手术说的话", Order.FORGET, "膝盖手术"),
    ("把我膝盖手术的事儿从记忆里清除掉", Order.FORGET, "膝盖手术"),
    ("请从你的记忆中移除我的生日", Order.FORGET, "生日"),
    ("请删除关于我父亲的记忆", Order.FORGET, "父亲"),
    ("刪掉我的地址", Order.FORGET, "地址"),
    ("忘记我住哪", Order.FORGET, "住哪"),
    ("I'd prefer if you forgot my old address", Order.FORGET, "my old address"),
    ("I would rather you didn't remember my salary", Order.FORGET, "my salary"),
    ("I would appreciate it if you forgot where my kids go to school.", Order.FORGET, "where my kids go to school"),
    ("It would be nice if you forgot my old email address.", Order.FORGET, "my old email address"),
    ("把你知道的我的住址都删掉", Order.FORGET, "住址"),
    ("把你保存的我老板的事统统忘掉", Order.FORGET, "老板"),
    (
        "What I told you about my brother's epilepsy is private. Please delete it.",
        Order.FORGET,
        "my brother's epilepsy",
    ),
    ("I sold the canoe, so you don't need to remember it any more.", Order.FORGET, "I sold the canoe"),
    ("I don't feel comfortable with you knowing where I bank. Please erase that.", Order.FORGET, "where I bank"),
    ("delete the thing i said about my ulcer pls its embarrassing", Order.FORGET, "my ulcer"),
    ("Please stop bringing up my divorce.", Order.FORGET, "my divorce"),
    ("That is out of date.", Order.UNTRUE, None),
    ("这已经过时了", Order.UNTRUE, None),
    ("That's not true any more.", Order.UNTRUE, None),
    ("这已经不是真的了", Order.UNTRUE, None),
    ("Forget everything about me.", Order.EVERYTHING, None),
    ("忘掉关于我的一切", Order.EVERYTHING, None),
    ("Please don't remember this conversation.", Order.PAUSE, None),
    ("This is off the record.", Order.PAUSE, None),
    ("不要记住这次对话", Order.PAUSE, None),
    ("Forget this chat.", Order.PAUSE, None),
    ("忘掉这次对话", Order.PAUSE, None),
]
NONE = [
    "Forget what I told you about my diet for this recipe",
    "Forget the first draft with the table, write it anew",
    "I always forget my keys.",
    "Forget it, let's move on.",
    "Don't forget the milk in the recipe list.",
    "How do I make git forget a file?",
    "What did I tell you about my diet?",
    "Remember to write tests in the code.",
    "My mother told me to forget about my job.",
    "I want to forget about my ex.",
    "I no longer work at the bank.",
    "That's not true, Canberra is the capital.",
    'Translate: "Forget what I told you about my salary."',
    "> Forget what I told you about my salary.\n\nWhat does he mean?",
    "```\nForget what I told you about my salary.\n```",
    "Write a story.\n\nForget what I told you about my salary." + " And so on." * 60,
    "Is this off the record?",
    "He spoke off the record.",
    "In the email, delete what I said about my boss.",
    "Forget about my allergy for this recipe.",
    "Forget about my knee, can I still run a marathon?",
    "Forget my diet for tonight, I want cake.",
    "I don't remember telling you about my job.",
    "Remove my ex from my Netflix account",
    "I forgot Anna's birthday",
    "the map is out of date",
    "I'd prefer if you forgot about dessert",
    "Forget Anna's recipe, let's order pizza",
    "Forget Vienna. What about Prague?",
    "The essay talks about my brother's epilepsy. Please delete that.",
    "I can't find my keys. Forget it.",
    "I'd rather my boss didn't know where I live.",
    "My boss keeps bringing up my divorce.",
    "I sold the canoe. What now?",
    "把这张表里所有的零都删了",
    "这次会议记录别存",
    "删掉我的草稿",
    "清除我的购物车",
    "我又忘了带钥匙",
    "别忘了我对花生过敏",
    "怎么才能忘掉一个人",
    "翻译:“忘掉我说过的工资的事”",
]


def set_aside() -> list[tuple[str, Order]]:
    """What the people set aside say, with its label."""
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    people = [json.loads(line) for line in (TRAINING / "steering.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [
        (said["text"], said["label"]) for person in people if person["person"] in aside for said in person["sentences"]
    ]
    ordinary = [json.loads(line) for line in (TRAINING / "sentences.jsonl").read_text(encoding="utf-8").splitlines()]
    found += [
        ("".join(piece for piece, _ in message["sentences"]), "none")
        for person in ordinary
        if person["person"] in aside
        for message in person["messages"]
    ]
    return [(text, Order(label)) for text, label in found]


def test_people_that_were_set_aside_are_obeyed_as_they_meant_it() -> None:
    said = set_aside()
    right, given, wrong = Counter[Order](), Counter[Order](), list[str]()
    for text, meant in said:
        given[meant] += 1
        order = (found := command(text)) is not None and found.order
        right[meant] += order == meant
        if order and order != meant:
            wrong.append(text)
    assert wrong == []
    assert right[Order.FORGET] >= 0.75 * given[Order.FORGET]
    assert right[Order.UNTRUE] >= 0.75 * given[Order.UNTRUE]
    assert right[Order.PAUSE] >= 0.75 * given[Order.PAUSE]
    assert given[Order.FORGET] > 100
    assert given[Order.NONE] > 400


def test_no_ordinary_request_is_an_order() -> None:
    people = [json.loads(line) for line in (TRAINING / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    requests = [request["text"] for person in people for request in person["requests"]]
    assert len(requests) > 4_000
    assert [text for text in requests if command(text)] == []


@pytest.mark.parametrize(("message", "order", "about"), TOLD)
def test_an_order_is_recognised_with_what_it_is_about(message: str, order: Order, about: str | None) -> None:
    found = command(message)
    assert found is not None
    assert found.order is order
    assert about is None or found.subjects[0].text == about
    assert pauses(message) is (order is Order.PAUSE)
    if order in (Order.FORGET, Order.EVERYTHING):
        assert unsteered(message) == ""


@pytest.mark.parametrize("message", NONE)
def test_what_is_no_order_is_none(message: str) -> None:
    assert command(message) is None


def test_an_order_stands_in_one_sentence_of_a_message() -> None:
    message = "I'm off to Rome. Forget what I told you about my salary. Where should I eat?"
    found = command(message)
    assert found is not None
    assert [each.text for each in found.subjects] == ["my salary"]
    assert unsteered(message) == "I'm off to Rome. Where should I eat?"


def test_a_reason_behind_it_makes_an_imperative_an_order() -> None:
    message = "Forget Anna. We split up. Where should I eat?"
    found = command(message)
    assert found is not None
    assert (found.order, found.subjects[0].text) == (Order.FORGET, "Anna")
    assert unsteered(message) == "We split up. Where should I eat?"
    assert command("Forget Anna.") is None
    assert command("Forget Anna. Who else could give the toast?") is None


def test_an_order_that_points_back_takes_the_sentence_before_with_it() -> None:
    message = "Where should I eat? What I told you about my ulcer is private. Please delete it."
    found = command(message)
    assert found is not None
    assert found.subjects[0].text == "my ulcer"
    assert unsteered(message) == "Where should I eat? "


@pytest.mark.parametrize("sentence", ["forget this", "please forget", "忘了吧"])
def test_an_order_that_names_nothing_is_about_nothing(sentence: str) -> None:
    assert subjects(sentence) == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "remember that my shed is 6 by 4 metres",
        "Please remember I don't eat beef.",
        "Could you make a note that my shed has no power?",
        "Make sure you remember that I don't eat beef.",
        "帮我记着我周三休息",
    ],
)
def test_what_is_to_be_remembered(sentence: str) -> None:
    assert is_to_be_remembered(sentence)


@pytest.mark.parametrize("sentence", ["Do you remember my dog?", "I live in Lyon.", "Remember to add tests."])
def test_what_nobody_asks_to_remember(sentence: str) -> None:
    assert not is_to_be_remembered(sentence)
