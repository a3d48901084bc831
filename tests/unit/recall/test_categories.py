"""Which memories matter unasked, and which requests they matter to, by the words of either."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.model import FORM, STATEMENTS, Memory, MemoryType, Scope
from semrouter_memory.recall.categories import MemoryCategory, Need, categories_of, need_of, pinned
from tests.memories import memory

MARKED = {
    "User is allergic to peanuts": MemoryCategory.DIET | MemoryCategory.HEALTH,
    "USER IS VEGAN": MemoryCategory.DIET,
    "User follows a low-carb diet": MemoryCategory.DIET,
    "User does not eat pork": MemoryCategory.DIET,
    "User doesn’t like mushrooms": MemoryCategory.DIET,
    "User eats no meat": MemoryCategory.DIET,
    "User's daughter can't stand cooked onions": MemoryCategory.DIET,
    "用户对花生过敏": MemoryCategory.DIET | MemoryCategory.HEALTH,
    "用户不吃香菜": MemoryCategory.DIET,
    "User has a bad left knee": MemoryCategory.HEALTH,
    "User takes sertraline 50 mg": MemoryCategory.HEALTH,
    "User has high blood pressure": MemoryCategory.DIET | MemoryCategory.HEALTH,
    "User suffers from knee pain": MemoryCategory.HEALTH,
    "用户的腰椎不好": MemoryCategory.HEALTH,
    "User prefers an aisle seat": MemoryCategory.TRAVEL,
    "User gets car-sick": MemoryCategory.TRAVEL,
    "User has no driver's license": MemoryCategory.TRAVEL,
    "用户喜欢靠窗的座位": MemoryCategory.TRAVEL,
    "User works night shifts until 10pm": MemoryCategory.TIME,
    "User is free after 11:30 pm": MemoryCategory.TIME,
    "User has choir every Thursday": MemoryCategory.TIME,
    "用户每周三上课": MemoryCategory.TIME,
    "User writes C++ and C# at work": MemoryCategory.CODE,
    "User analyses data in R.": MemoryCategory.CODE,
    "用户用Python写后端": MemoryCategory.CODE,
    "User wants memos without headings": MemoryCategory.WRITING,
    "Style: no exclamation marks": MemoryCategory.WRITING,
    "User's budget is at most $500": MemoryCategory.MONEY,
    "用户的预算是五千元": MemoryCategory.MONEY,
    "User prefers concise answers": MemoryCategory.ANSWER,
    "用户希望回答简短": MemoryCategory.ANSWER,
    "用户偏好技术内容用要点列表而非长段落": MemoryCategory.ANSWER,
    "讲东西的时候尽量举例子": MemoryCategory.ANSWER,
    "User's name is Marta": MemoryCategory.NAME,
    "用户叫李雷": MemoryCategory.NAME,
}

QUOTED = {
    "I don't eat pork": MemoryCategory.DIET,
    "i dont drink coffee": MemoryCategory.DIET,
    "I do not like mushrooms": MemoryCategory.DIET,
    "I take metformin daily": MemoryCategory.HEALTH,
    "I don’t drive": MemoryCategory.TRAVEL,
    "I fly only with Lufthansa": MemoryCategory.TRAVEL,
    "We don't have a car": MemoryCategory.TRAVEL,
    "I refuse to buy leather": MemoryCategory.MONEY,
    "I prefer short answers.": MemoryCategory.ANSWER,
    "I'm a nurse in Leeds. I want short answers.": MemoryCategory.ANSWER,
    "Remember that I want concise replies": MemoryCategory.ANSWER,
    "Always answer in bullet points.": MemoryCategory.ANSWER,
    "Please keep your answers short from now on.": MemoryCategory.ANSWER,
    "Answer me in German, please.": MemoryCategory.ANSWER,
    "From now on, call me Sam.": MemoryCategory.ANSWER,
    "I read on my phone, so keep it short": MemoryCategory.ANSWER,
    "And don't use emojis, ever": MemoryCategory.ANSWER,
    "Talk to me like a mate, not a robot": MemoryCategory.ANSWER,
    "以后用大白话跟我说": MemoryCategory.ANSWER,
    "以后请叫我芳姐": MemoryCategory.ANSWER,
    "I'm called Sam": MemoryCategory.NAME,
    "I live in Leeds. My name is Sam.": MemoryCategory.NAME,
    "I go by Sam": MemoryCategory.NAME,
}

ANOTHERS = (
    "make me a packing list, and keep it short because my case is small",
    "can you draft a mail to my boss, no jargon, he is new in Leeds",
    *("My mother calls me Sammy", "Call me back on Monday", "I have to reply to clients in French"),
    *("I talk to users in Polish", "My boss gives short answers", "They told me to keep the receipts"),
    *("My sister is called Anna", "大家都叫我起床"),
)

PLAIN = (
    *("User lives in Rome", "User likes black tea", "User's sister is called Julia", "User drives a fast car"),
    *("User was born in Reykjavik", "User has two scodellas", "用户住在上海", "用户养了一只猫"),
)

NEEDED = {
    "What should I cook for dinner?": Need.FOOD,
    "晚饭吃什么": Need.FOOD,
    "My back hurts": Need.BODY,
    "我头疼": Need.BODY,
    "Give me a training plan": Need.BODY,
    "Find me hotels in Lisbon": Need.TRIP,
    "推荐酒店": Need.TRIP | Need.PURCHASE,
    "Is 11 am okay?": Need.DATE,
    "Propose three slots": Need.DATE,
    "帮我约个时间": Need.DATE,
    "Write a C++ parser": Need.PROGRAM | Need.TEXT,
    "Parse this in C#": Need.PROGRAM,
    "写个Python脚本": Need.PROGRAM | Need.TEXT,
    "Draft an email to Bob": Need.TEXT,
    "写一封信": Need.TEXT,
    "Which laptop should I get?": Need.PURCHASE,
    "送妈妈什么礼物": Need.PURCHASE,
    "Explain photosynthesis": Need.EXPLANATION,
    "为什么天是蓝的": Need.EXPLANATION,
}

NOTHING = (
    *("Thanks!", "Where do I live?", "The trainee left", "Is a tomato red?", "adéquat", "décopier"),
    *("我住在哪里", "我相信你", "大约几公里", "吃惊", "我的微信号", "用信用卡"),
)


def said(content: str, kind: MemoryType = MemoryType.SEMANTIC) -> Memory:
    return memory(Scope("alice"), content=content, kind=kind)


@pytest.mark.parametrize(("content", "marks"), MARKED.items(), ids=MARKED)
def test_a_statement_has_the_classes_of_its_words(content: str, marks: MemoryCategory) -> None:
    assert categories_of(said(content)) == marks


@pytest.mark.parametrize(("content", "marks"), QUOTED.items(), ids=QUOTED)
def test_a_quote_has_the_classes_of_what_it_tells(content: str, marks: MemoryCategory) -> None:
    found_by = {"attribute": "an attribute", "value": "", "text": ""}
    for facts in ([], [found_by]):
        quote = replace(said(content), metadata={FORM: "quote", STATEMENTS: facts})
        assert categories_of(quote) & (marks) == marks


@pytest.mark.parametrize("content", ANOTHERS)
def test_what_others_say_and_are_called_is_no_wish_how_to_be_answered(content: str) -> None:
    quote = replace(said(content), metadata={FORM: "quote"})
    assert not categories_of(quote) & (MemoryCategory.ANSWER | MemoryCategory.NAME)


@pytest.mark.parametrize("content", PLAIN)
def test_most_statements_have_no_class(content: str) -> None:
    assert categories_of(said(content)) == MemoryCategory.NONE


@pytest.mark.parametrize(("request_text", "need"), NEEDED.items(), ids=NEEDED)
def test_a_request_needs_what_its_words_say(request_text: str, need: Need) -> None:
    assert need_of(request_text) & need == need


@pytest.mark.parametrize("request_text", NOTHING)
def test_a_request_about_nothing_of_these_needs_nothing(request_text: str) -> None:
    assert need_of(request_text) == Need.NONE


def test_a_training_plan_is_no_trip_by_train() -> None:
    assert not need_of("Give me a training plan") & Need.TRIP
    assert need_of("Which train do I take?") & Need.TRIP


@pytest.mark.parametrize("content", ["Where do we meet?", "我们在哪里见？ "])
def test_only_an_episode_may_be_a_question(content: str) -> None:
    assert categories_of(said(content, MemoryType.EPISODIC)) & MemoryCategory.QUESTION
    assert not categories_of(said(content)) & MemoryCategory.QUESTION


def test_what_is_wanted_of_a_text_for_others_is_not_how_the_user_wants_to_be_answered() -> None:
    assert not categories_of(said("User wants concise emails to clients")) & MemoryCategory.ANSWER
    assert not categories_of(said("用户希望给客户的邮件用要点列表")) & MemoryCategory.ANSWER
    assert categories_of(said("User wants emails in plain words")) & MemoryCategory.WRITING


def test_how_to_answer_is_offered_with_a_task_and_the_name_with_what_is_signed() -> None:
    marks = np.array(
        [MemoryCategory.ANSWER, MemoryCategory.DIET, MemoryCategory.NAME, MemoryCategory.NONE], dtype=np.uint16
    )
    scores = np.zeros(4, dtype=np.float32)
    assert pinned(marks, scores, Need.EXPLANATION).tolist() == [0]
    assert pinned(marks, scores, Need.TEXT | Need.PROGRAM).tolist() == [0]
    assert sorted(pinned(marks, scores, need_of("Draft an email to my landlord")).tolist()) == [0, 2]
    assert pinned(marks, scores, Need.DATE).tolist() == pinned(marks, scores, Need.NONE).tolist() == []


def test_the_best_two_are_pinned() -> None:
    marks = np.full(4, MemoryCategory.ANSWER, dtype=np.uint16)
    assert pinned(marks, np.array([0.1, 0.4, 0.2, 0.3], dtype=np.float32), Need.PROGRAM).tolist() == [1, 3]


@given(st.text())
def test_any_text_has_classes(text: str) -> None:
    known = sum(MemoryCategory)
    assert categories_of(said(text)) | known == known
    assert isinstance(need_of(text), Need)
