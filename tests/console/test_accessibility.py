"""The console for everybody: by keyboard, with a screen reader, on narrow screens, by day and by night."""

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import CONSOLE, Person, barriers, budget, picture, said

Scheme = Literal["light", "dark"]
LOOKS: list[tuple[int, Scheme]] = [(320, "dark"), (320, "light"), (1280, "dark"), (1280, "light")]
"""The last is what a view is then used in."""


def every_view(person: Person) -> Iterator[tuple[str, Page]]:
    """Each view with something to see in it; what unfolds is unfolded, what asks is open."""
    page = person.opens()
    expect(page.get_by_role("main")).to_contain_text("Nothing is remembered yet.")
    yield "empty", page
    ids = budget(person)
    person.ports.add_receipt(person.name, "injected", {ids["new"]: 0.93, "mem_gone": 0.61})
    for view in ("memories", "memories?q=budget", f"memory/{ids['new']}", f"memory/{ids['quote']}"):
        page.goto("about:blank")
        person.opens(view)
        expect(page.get_by_role("main")).to_contain_text("budget for the Hawaii trip")
        yield view, page
    page.get_by_role("button", name="Correct").click()
    yield "correct", page
    person.opens("recalls").get_by_text("Why this?").click()
    expect(page.get_by_role("main")).to_contain_text("Forgotten since")
    yield "recalls", page
    person.opens("question").get_by_label("Question").fill("What is my budget for the Hawaii trip?")
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("What its relevance is made of").first.click()
    yield "question", page
    person.opens("data")
    yield "data", page
    page.get_by_role("button", name="Forget everything…").click()
    yield "forget everything", page
    person.ports.append(person.name, "I live in Oslo")
    page.goto(person.ports.operator_url + CONSOLE)
    expect(page.get_by_label("Operator's token")).to_be_focused()
    yield "sign in", page
    person.operates(owner=f"user:{person.name}")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("region", name="Collections")).to_contain_text("In use")
    yield "overview", page
    page.get_by_role("link", name="Queue").click()
    page.get_by_text("Show what was said").first.click()
    yield "queue", page
    page.get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("main")).to_contain_text("No dead letters.")
    yield "dead letters", page


def test_no_view_has_a_barrier(person: Person) -> None:
    found = {}
    for number, (view, page) in enumerate(every_view(person)):
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            if told := barriers(page):
                found[view, width, scheme] = told
            picture(page, f"all/{number:02}-{width}-{scheme}")
            if (width, scheme, view.partition("/")[0]) == (*LOOKS[0], "memory"):
                picture(page, "console-narrow")
    assert found == {}


def test_everything_can_be_done_with_the_keyboard(person: Person) -> None:
    """Find a memory, correct it, forget it: the focus is always where one would go on."""
    person.remembers({"content": "User lives in Oslo"}, {"content": "User likes tea"})
    page = person.opens()
    keyboard = page.keyboard
    keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to content")).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    keyboard.press("Tab")
    expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
    keyboard.type("where does the user live: Oslo")
    keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_role("listitem").first).to_contain_text("Oslo")
    oslo = page.get_by_role("link", name="User lives in Oslo")
    _tab_to(page, "User lives in Oslo")
    expect(oslo).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    _tab_to(page, "Correct")
    keyboard.press("Enter")
    expect(page.get_by_label("Corrected text")).to_be_focused()
    keyboard.press("Control+A")
    keyboard.type("User lives in Bergen")
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(said(page)).to_contain_text("Corrected.")
    expect(page.get_by_role("button", name="Correct")).to_be_focused()
    _tab_to(page, "Forget…")
    keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    for _ in range(3):
        keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
        )
    keyboard.press("Escape")
    expect(page.get_by_role("button", name="Forget…")).to_be_focused()
    keyboard.press("Enter")
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(said(page)).to_contain_text("Forgotten.")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert person.contents == ["User likes tea"]


def _tab_to(page: Page, text: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if text in page.evaluate("document.activeElement.innerText || ''"):
            return
    pytest.fail(f"{text} cannot be reached with the keyboard")


def test_the_focus_can_be_seen(person: Person) -> None:
    page = person.opens()
    for _ in range(12):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")


def test_each_view_has_a_title_of_its_own(person: Person) -> None:
    page = person.opens()
    titles = []
    for name in ("Memories", "Recalls", "Explain", "Data"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("data" if name == "Data" else name)
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")
        titles.append(page.title())
    assert titles == [f"{name} · Memory" for name in ("Memories", "Recalls", "Explain a question", "Your data")]
