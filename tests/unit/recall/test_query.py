"""What is searched for."""

from collections.abc import Sequence
from time import process_time

import pytest

from semrouter_memory.model import Message, Role
from semrouter_memory.recall.query import Query, is_vague, key_terms
from tests.memories import NOW


def search_query(text: str, history: Sequence[Message], *, max_chars: int) -> str:
    return Query(text=text, history=history, now=NOW, max_chars=max_chars).search_words


def search_text(text: str, history: Sequence[Message], *, max_chars: int) -> str:
    return Query(text=text, history=history, now=NOW, max_chars=max_chars).search_text


HAWAII = (
    Message(Role.USER, "Planning Hawaii vacation"),
    Message(Role.ASSISTANT, "Lovely! Any islands in mind?"),
    Message(Role.USER, "Looking at hotels"),
)


@pytest.mark.parametrize(
    "query",
    [
        *(
            "How much?",
            "how much is it?",
            "And that one?",
            "what about the hotel",
            "This one",
            "why?",
            "and the other room",
        ),
        *(
            "when does she have to be there",
            "costs?",
            "at what rate",
            "ok and the medical one",
            "what did he say about it",
        ),
        *("多少钱？", "那个呢？", "还有别的吗", "那回老家那次呢", "什么时候？", "他怎么样了"),
    ],
)
def test_a_query_that_points_into_the_conversation_is_vague(query: str) -> None:
    assert is_vague(query)


@pytest.mark.parametrize(
    "query",
    [
        *("What's my budget for the Hawaii trip?", "Where do I live?", "What's my name?", "Am I allergic to peanuts?"),
        *("write a quicksort in Python", "Which airline has the cheapest direct flight and does it serve food?"),
        *("我的预算是多少？", "网关服务超时设的是几秒？", "我住在哪个城市"),
        "Noor's soy formula and bottles",
    ],
)
def test_a_query_that_names_what_it_is_about_is_not_vague(query: str) -> None:
    assert not is_vague(query)


def test_a_vague_query_gets_the_key_terms_of_the_conversation() -> None:
    assert search_query("How much?", HAWAII, max_chars=100) == "How much? planning hawaii vacation hotels"


def test_a_self_contained_query_is_used_as_it_is() -> None:
    query = "What's my budget for the Japan trip?"

    assert search_query(query, HAWAII, max_chars=100) == query


def test_a_vague_query_without_a_conversation_stands_alone() -> None:
    assert search_query("How much?", (), max_chars=100) == "How much?"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((), "How much?"),
        (("Planning Hawaii vacation", "Lovely!"), "Planning Hawaii vacation Lovely! How much?"),
        (
            ("Planning Hawaii vacation", "Lovely!", "Which hotels are by the sea?", "Two."),
            "Which hotels are by the sea? Two. How much?",
        ),
        (
            ("Planning Hawaii vacation", "Lovely!", "And hotels?", "Two."),
            "Planning Hawaii vacation Lovely! And hotels? Two. How much?",
        ),
        (("And now?", "Rest.", "And then?", "Rest."), "And then? Rest. How much?"),
    ],
)
def test_the_meaning_of_a_vague_query_begins_where_the_conversation_says_what_it_is_about(
    said: tuple[str, ...], expected: str
) -> None:
    roles = (Role.USER, Role.ASSISTANT)
    history = [Message(roles[at % 2], text) for at, text in enumerate(said)]
    assert search_text("How much?", history, max_chars=200) == expected


@pytest.mark.parametrize(
    ("said", "answered", "question"),
    [
        ("Tell me about my flat. ", "It is on the third floor. ", "And the other one?"),
        ("介绍一下我的房子。", "房子在三楼。", "那另一个呢？"),
    ],
)
def test_long_messages_leave_room_for_a_vague_question(said: str, answered: str, question: str) -> None:
    """A model reads about 250 tokens: a word or a Chinese character each."""
    history = [Message(Role.USER, said * 90), Message(Role.ASSISTANT, answered * 90)] * 3
    text = search_text(question, history, max_chars=4_000)

    assert text.endswith(question)
    assert text.startswith(said.strip())
    assert answered.strip() in text
    assert len(text) <= (250 if "那" in question else 800)


PAGE = "The ferry was late. " * 16 + "\n\n" + "Nobody on board complained about it, though. " * 12


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Would I like this?", "Would I like this?"),
        ("Hi there, hope you are well. Would I like this? Thank you so much!", "Would I like this?"),
        ("Thanks! And hers?", "And hers?"),
        ("Thanks! Good night!", "Thanks! Good night!"),
        ("I cook for two tonight. Any ideas?", "I cook for two tonight. Any ideas?"),
        (f"Would I like this?\n\n{PAGE}", "Would I like this?"),
        (f"{PAGE}\n\nis this for me", "is this for me"),
        (f"Read this:\n\n{PAGE}\n\nWould I like it?", "Read this:\nWould I like it?"),
        (f"{PAGE}\n\nThanks in advance,\nMia", "The ferry was late.\nMia"),
        (f"{PAGE}\n\nWould I like this?\n\nThank you! Have a nice day!\n", "Would I like this?"),
        (f"{PAGE.replace(chr(10), ' ')} Would I like this?", "Would I like this?"),
        (f"总结一下：\n{PAGE}", "总结一下："),
        ("x" * 999, "x" * 300 + "\n" + "x" * 300),
    ],
)
def test_what_is_asked_stands_before_or_behind_what_is_pasted(text: str, asked: str) -> None:
    assert Query(text=text, now=NOW, max_chars=4_000).asked == asked


@pytest.mark.parametrize(
    ("text", "asked", "before"),
    [
        ("User: hello\nAssistant: Hi!\nUser: Where do I live?", "Where do I live?", ["hello", "Hi!"]),
        ("Chat on.\n\nHuman: hello\nAI: Hi!\nHuman: and then?\nAI:", "and then?", ["hello", "Hi!"]),
        ("用户：你好\n助手：你好！\n用户：我住哪里？", "我住哪里？", ["你好", "你好！"]),
        (f"Find a title:\n\nUser: Where do I live?\nAssistant: In Bonn.\n\n{PAGE}", "Find a title:", []),
        ("User: hello\nAssistant: Hi!", "User: hello\nAssistant: Hi!", []),
        ("User: Where do I live?", "Where do I live?", []),
        ("What does my assistant: field do?", "What does my assistant: field do?", []),
        ("User:\nAssistant:", "User:\nAssistant:", []),
    ],
)
def test_a_conversation_that_is_written_out_is_read_as_one(text: str, asked: str, before: list[str]) -> None:
    found = Query(text=text, now=NOW, max_chars=4_000)

    assert found.asked == asked
    assert [message.text for message in found.history] == before


def test_what_is_asked_of_a_pasted_text_is_searched_for_first() -> None:
    """An embedding model reads the beginning alone."""
    found = Query(text=f"{PAGE * 20}\n\nWould my dog like this?", now=NOW, max_chars=4_000)

    assert found.search_text.startswith("Would my dog like this? The ferry was late.")
    assert len(found.search_text) <= 4_000
    assert found.said == "Would my dog like this?"


def test_courtesies_are_not_searched_for() -> None:
    found = Query(text="Good morning! Where do I live? Have a nice day!", history=HAWAII, now=NOW, max_chars=4_000)

    assert (found.search_text, found.search_words, found.said) == ("Where do I live?",) * 3


def test_a_pasted_text_does_not_make_a_request_personal() -> None:
    assert not Query(text=f"Translate this:\n\n{PAGE}\nMy own luggage is lost.\n", now=NOW, max_chars=4_000).is_personal


def test_behind_what_a_tool_returned_the_question_before_it_is_asked() -> None:
    steps = (
        *HAWAII,
        Message(Role.USER, "New task:\nwhere does my sister live?"),
        Message(Role.ASSISTANT, "Calling tools:\nsearch"),
        Message(Role.USER, "Observation:\nnothing"),
        Message(Role.ASSISTANT, "Calling tools:\nsearch"),
    )
    query = Query(text="Observation:\nThe sun shines in Perth.", history=steps, now=NOW, max_chars=4_000)
    assert query.text == "where does my sister live?"
    assert [*query.history] == [*HAWAII]


def test_white_space_makes_no_difference() -> None:
    assert search_query("  write\n a\tquicksort in Python ", (), max_chars=100) == "write a quicksort in Python"


@pytest.mark.parametrize(("query", "max_chars"), [("word " * 100, 16), ("How much?", 20), ("How much?", 4)])
def test_the_query_is_bounded(query: str, max_chars: int) -> None:
    bounded = search_query(query, HAWAII, max_chars=max_chars)

    assert len(bounded) <= max_chars
    assert bounded == search_query(query, HAWAII, max_chars=10_000)[:max_chars].rstrip() or len(bounded) == max_chars


def test_only_the_last_three_user_messages_count() -> None:
    history = [Message(Role.USER, text) for text in ("sailing", "Hawaii", "hotels", "budget")]

    assert key_terms([*history, Message(Role.ASSISTANT, "sharks")]) == ["hawaii", "hotels", "budget"]


@pytest.mark.parametrize("answers", [0, 1, 300])
def test_of_a_long_conversation_is_read_what_counts(answers: int) -> None:
    """An agent's has hundreds of messages between two of the user's: each request would take longer than the one before."""
    said = [Message(Role.USER, text) for text in ("Planning Hawaii", "Looking at hotels", "And at flights")]
    steps = [Message(Role.ASSISTANT, "I look.")] * answers
    recent = [message for each in said for message in (each, *steps)]
    longer = [*[Message(Role.USER, "Fix the tests"), *steps] * 30, *recent]
    found = Query(text="How much?", history=longer, now=NOW, max_chars=4_000)
    assert found.history[-len(recent) :] == tuple(recent)
    assert len(found.history) == max(len(recent), 6)
    assert found.search_words == "How much? planning hawaii hotels flights"
    assert found.search_text == search_text("How much?", recent, max_chars=4_000)


def test_a_term_is_taken_once_and_stop_words_are_not() -> None:
    assert key_terms([Message(Role.USER, "What about my Hawaii trip? The Hawaii one.")]) == ["hawaii", "trip"]


def test_the_latest_terms_are_kept_when_there_are_many() -> None:
    terms = key_terms([Message(Role.USER, f"first{at}") for at in range(2)] + [Message(Role.USER, _numbered(40))])

    assert len(terms) == 24
    assert terms[-1] == "term39"


def test_chinese_terms_are_cut_at_function_words() -> None:
    assert key_terms([Message(Role.USER, "我在计划夏威夷旅行的预算")]) == ["计划夏威夷旅行", "预算"]


def _numbered(count: int) -> str:
    return " ".join(f"term{at}" for at in range(count))


@pytest.mark.timeout(20)
def test_blank_space_before_a_query_costs_nothing() -> None:
    """A pattern that may take the same space in two ways would try all of them, while all other requests wait."""
    assert is_vague(" " * 100_000 + "and that one?")
    assert is_vague("\n" * 100_000 + "!")


def test_a_document_that_was_pasted_before_is_not_read_whole() -> None:
    """All requests share one loop: reading this one took 1.5 s, thirty times the deadline."""
    pasted = (Message(Role.USER, "The quick brown fox jumps. " * 700_000), Message(Role.ASSISTANT, "Read."))
    began = process_time()
    assert search_text("and how much?", pasted, max_chars=100).endswith(" Read. and how much?")
    assert process_time() - began < 0.3


def test_a_clients_frame_is_neither_searched_for_nor_asked() -> None:
    frame = "Current date: Friday, November 28, 2026\nUser timezone: America/Los_Angeles\n\n"
    history = (
        Message(Role.USER, f"{frame}Planning Hawaii vacation"),
        Message(Role.ASSISTANT, "Current date: today\n\nLovely!"),
    )
    query = Query(text=f"{frame}How much?", history=history, now=NOW, max_chars=4_000)
    assert query.asked == query.line == "How much?"
    assert query.search_words == "How much? planning hawaii vacation"
    assert query.history[1] is history[1]


@pytest.mark.parametrize(
    ("text", "before", "asked"),
    [
        ("Alice: what time is it?", ["Alice: hello"], "what time is it?"),
        ("Alice: what time is it?", ["Bob (dad): hi", "Alice: hello"], "what time is it?"),
        ("小美：我的航班几点起飞？", ["小美：你好"], "我的航班几点起飞？"),
        ("Tokyo: what time is my flight?", [], "Tokyo: what time is my flight?"),
        ("Tokyo: what time is my flight?", ["hello there"], "Tokyo: what time is my flight?"),
        ("https://a.example what is it?", ["https://b.example"], "https://a.example what is it?"),
    ],
)
def test_a_name_before_each_message_is_not_part_of_what_is_asked(text: str, before: list[str], asked: str) -> None:
    history = tuple(
        message for said in before for message in (Message(Role.USER, said), Message(Role.ASSISTANT, "Hi!"))
    )
    assert Query(text=text, history=history, now=NOW, max_chars=4_000).asked == asked
