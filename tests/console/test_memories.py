"""What a person does with their memories in the console."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.console.conftest import Person, barriers, budget, days_ago, picture, said


def test_a_new_user_is_told_how_to_begin(person: Person) -> None:
    page = person.opens()
    expect(page.get_by_role("main")).to_contain_text("Nothing is remembered yet.")
    expect(page.get_by_role("banner")).to_contain_text(person.name)


def test_memories_are_listed_searched_and_narrowed(person: Person) -> None:
    budget(person)
    page = person.opens()
    rows = page.get_by_role("main").get_by_role("listitem")
    expect(rows).to_have_count(6)
    picture(page, "console-memories")
    page.get_by_label("Form").select_option("Quotes only")
    expect(rows).to_have_count(3)
    page.get_by_label("Type").select_option("How-to")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("smoke test")
    page.get_by_role("button", name="Clear filters").click()
    expect(rows).to_have_count(6)
    page.get_by_label("Source").select_option("Added through the API")
    expect(rows).to_contain_text(["Ottilie"])
    page.get_by_label("Source").select_option("Every source")
    page.get_by_label("Said until").fill(days_ago(30)[:10])
    expect(rows).to_contain_text(["Ottilie"])
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("searchbox", name="Search").fill("budget for the Hawaii trip")
    page.get_by_role("searchbox", name="Search").press("Enter")
    expect(rows.first).to_contain_text("budget for the Hawaii trip")
    expect(rows.first.get_by_role("meter", name="Relevance")).to_be_visible()
    page.reload()
    expect(rows.first).to_contain_text("budget for the Hawaii trip")


@pytest.mark.parametrize(
    ("zone", "time"), [("Asia/Tokyo", "2026-03-14T20:00:00Z"), ("America/Los_Angeles", "2026-03-16T03:00:00Z")]
)
@pytest.mark.parametrize("search", ["", "&q=tea"])
def test_a_day_is_that_of_the_reader(new_person: Callable[..., Person], zone: str, time: str, search: str) -> None:
    """As the dates beside the memories are."""
    person = new_person(timezone_id=zone)
    person.remembers({"content": "User likes tea", "observed_at": time})
    page = person.opens(f"memories?since=2026-03-15&until=2026-03-15{search}")
    expect(page.get_by_role("listitem").filter(has_text="User likes tea")).to_contain_text("15 Mar 2026")
    page = person.opens(f"memories?until=2026-03-14{search}")
    expect(page.get_by_role("main")).to_contain_text("Nothing fits.")
    page = person.opens(f"memories?since=2026-03-16{search}")
    expect(page.get_by_role("main")).to_contain_text("Nothing fits.")


def test_filters_that_nothing_fits_say_so(person: Person) -> None:
    person.remembers({"content": "User likes tea"})
    page = person.opens("memories?type=procedural")
    expect(page.get_by_role("main")).to_contain_text("Nothing fits.")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("link", name="User likes tea")).to_be_visible()


def test_what_takes_longer_than_a_moment_is_said(person: Person) -> None:
    person.remembers({"content": "User likes tea"})
    held: list[Route] = []
    person.page.route("**/v1/memory?*", lambda route: held.append(route))  # noqa: PLW0108 - the driver marks it
    page = person.opens()
    expect(page.get_by_role("main").get_by_role("status")).to_have_text("Loading…")
    for route in held:
        route.continue_()
    expect(page.get_by_role("link", name="User likes tea")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("status")).to_have_count(0)


def test_further_memories_are_a_click_away_and_have_the_focus(person: Person) -> None:
    person.remembers(*({"content": f"User has key number {n:02}", "observed_at": days_ago(n + 1)} for n in range(30)))
    page = person.opens()
    rows = page.get_by_role("main").get_by_role("listitem")
    expect(rows).to_have_count(25)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(30)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    expect(page.get_by_role("link", name="User has key number 25")).to_be_focused()


def test_a_search_goes_on_and_its_filters_reach_every_memory(person: Person) -> None:
    oldest = {
        "content": "A suitcase was lost once in Rome",
        "source": "api",
        "metadata": {"form": "quote", "pinned": True},
    }
    person.remembers({**oldest, "observed_at": days_ago(200)})
    person.remembers(*({"content": f"User has key number {n:03}", "observed_at": days_ago(n + 1)} for n in range(129)))
    page = person.opens("memories?q=key+number+007")
    rows = page.get_by_role("main").get_by_role("listitem")
    expect(rows).to_have_count(25)
    expect(rows.first).to_contain_text("User has key number 007")
    for shown in (50, 75, 100, 125, 130):
        page.get_by_role("button", name="Show more").click()
        expect(rows).to_have_count(shown)
    expect(said(page)).to_contain_text("5 more memories.")
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    assert len(set(rows.get_by_role("link").all_text_contents())) == 130
    for label, choice in (("Form", "Quotes only"), ("Source", "Added through the API")):
        page.get_by_label(label).select_option(choice)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("suitcase")
        page.get_by_label(label).select_option("")
        expect(rows).to_have_count(25)
    page.get_by_label("Pinned only").check()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("suitcase")


def test_a_statement_shows_its_quote_and_its_history_as_a_timeline(person: Person) -> None:
    ids = budget(person)
    page = person.opens(f"memory/{ids['new']}")
    expect(page.get_by_role("region", name="In the words it came from")).to_contain_text("We talked it over")
    events = page.get_by_role("region", name="History").get_by_role("listitem")
    expect(events).to_contain_text(["$10,000", "$8,000"])
    expect(events.first).to_contain_text("holds now")
    picture(page, "console-memory")
    events.nth(1).get_by_role("link").click()
    expect(page.get_by_role("main")).to_contain_text("it is not recalled any more")
    page.get_by_role("link", name="See what replaced it").click()
    page.get_by_role("link", name="Open the quote").click()
    expect(page.get_by_role("region", name="What it says")).to_contain_text("$10,000")


def test_a_quote_shows_all_that_it_says_in_its_order(person: Person) -> None:
    said_of = [("employer", "Acme"), ("employer", "Initech"), ("2", "pets")]
    statements = [{"attribute": name, "value": value, "text": f"User's {name} is {value}"} for name, value in said_of]
    (memory,) = person.remembers(
        {"content": "I work at Acme and I work at Initech", "metadata": {"form": "quote", "statements": statements}}
    )
    page = person.opens(f"memory/{memory}")
    told = page.get_by_role("region", name="What it says")
    expect(told.get_by_role("term")).to_have_text([name for name, _ in said_of])
    expect(told.get_by_role("definition")).to_have_text([value for _, value in said_of])


def test_an_episode_shows_its_parts(person: Person) -> None:
    budget(person)
    page = person.opens("memories?type=episodic")
    page.get_by_role("link", name="Deploy the billing service").click()
    expect(page.get_by_role("region", name="What was done")).to_contain_text("Verify the cluster's version first")


def test_a_memory_is_corrected(person: Person) -> None:
    person.remembers({"content": "User lives in Oslo"})
    page = person.opens()
    page.get_by_role("link", name="User lives in Oslo").click()
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Corrected text").fill("User lives in Bergen")
    page.get_by_role("button", name="Save").click()
    expect(said(page)).to_contain_text("Corrected.")
    assert person.contents == ["User lives in Bergen"]
    expect(page.get_by_text("It replaced no other memory")).to_be_visible()
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Corrected text").fill("My password is hunter2secret!")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("secret")
    page.get_by_label("Corrected text").press("Escape")
    expect(page.get_by_role("button", name="Correct")).to_be_focused()
    assert person.contents == ["User lives in Bergen"]


def test_a_memory_is_forgotten_only_after_a_second_thought(person: Person) -> None:
    person.remembers({"content": "User lives in Oslo"}, {"content": "User likes tea"})
    page = person.opens()
    page.get_by_role("link", name="User lives in Oslo").click()
    page.get_by_role("button", name="Forget…").click()
    page.get_by_role("dialog").press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Forget…")).to_be_focused()
    page.get_by_role("button", name="Forget…").click()
    page.get_by_role("dialog", name="Forget this memory?").get_by_role("button", name="Forget").click()
    expect(said(page)).to_contain_text("Forgotten.")
    expect(page.get_by_role("link", name="User lives in Oslo")).to_have_count(0)
    assert person.contents == ["User likes tea"]
    page.go_back()
    expect(page.get_by_role("main")).to_contain_text("There is no such memory.")


def test_what_cannot_be_forgotten_is_said_where_it_was_confirmed(person: Person) -> None:
    """The rest of the page is inert: nothing there is read out, or can be dismissed."""
    (memory,) = person.remembers({"content": "User likes tea"})
    page = person.opens(f"memory/{memory}")

    def refuse(route: Route) -> None:
        if route.request.method == "DELETE":
            route.fulfill(status=503, body="no")
        else:
            route.continue_()

    page.route("**/v1/memory/mem_*", refuse)
    page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog", name="Forget this memory?")
    dialog.get_by_role("button", name="Forget").click()
    expect(dialog.get_by_role("alert")).to_contain_text("does not answer now")
    assert barriers(page) == []
    dialog.get_by_role("button", name="Dismiss").click()
    expect(dialog.get_by_role("alert")).to_be_empty()
    page.unroute("**/v1/memory/mem_*")
    dialog.get_by_role("button", name="Forget").click()
    expect(said(page)).to_contain_text("Forgotten.")


def test_everything_is_forgotten_once_the_word_is_typed(person: Person) -> None:
    budget(person)
    page = person.opens("data")
    page.get_by_role("button", name="Forget everything…").click()
    dialog = page.get_by_role("dialog", name="Forget everything?")
    expect(dialog.get_by_label("Type “forget” to confirm")).to_be_focused()
    expect(dialog.get_by_role("button", name="Forget everything")).to_be_disabled()
    dialog.get_by_label("Type “forget” to confirm").fill("forget")
    picture(page, "console-forget")
    dialog.get_by_role("button", name="Forget everything").click()
    expect(said(page)).to_contain_text("forgotten")
    expect(page.get_by_role("main")).to_contain_text("Nothing is remembered yet.")
    assert person.contents == []


def test_what_is_exported_can_be_imported_and_refused_lines_are_named(person: Person, tmp_path: Path) -> None:
    budget(person)
    page = person.opens("data")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Export").click()
    exported = tmp_path / "memories.ndjson"
    downloading.value.save_as(exported)
    assert downloading.value.suggested_filename == f"memories-{person.name}.ndjson"
    person.asks("DELETE", f"/v1/memory?user_id={person.name}")
    exported.write_text(f'{exported.read_text()}{{"content": ""}}\n')
    page.get_by_label("File").set_input_files(exported)
    page.get_by_role("button", name="Import").click()
    expect(said(page)).to_contain_text("7 memories imported.")
    report = page.get_by_role("region", name="Import")
    expect(report).to_contain_text("8 lines: 7 imported, 0 skipped, 1 refused.")
    expect(report.get_by_role("table", name="Refused lines").get_by_role("row").nth(1)).to_contain_text("8")
    assert len(person.contents) == 6


def test_remembering_is_paused_and_resumed(person: Person) -> None:
    page = person.opens("data")
    page.get_by_role("button", name="Pause remembering").click()
    expect(said(page)).to_contain_text("Paused.")
    expect(page.get_by_role("region", name="Remembering")).to_contain_text("Paused since")
    assert person.asks("GET", "/v1/memory/settings")["paused"]
    page.get_by_role("link", name="Memories").click()
    page.get_by_role("banner").get_by_role("link", name="Paused").click()
    page.get_by_role("button", name="Resume remembering").click()
    expect(said(page)).to_contain_text("Remembering again.")
    expect(page.get_by_role("banner").get_by_role("link", name="Paused")).to_be_hidden()
    assert not person.asks("GET", "/v1/memory/settings")["paused"]


def test_a_receipt_says_why(person: Person) -> None:
    ids = budget(person)
    person.ports.add_receipt(person.name, "greeting", {})
    person.ports.add_receipt(person.name, "injected", {ids["new"]: 0.93, "mem_gone": 0.61})
    page = person.opens("recalls")
    receipts = page.get_by_role("main").get_by_role("listitem")
    expect(receipts.first).to_contain_text("2 memories were given")
    receipts.first.get_by_text("Why this?").click()
    expect(receipts.first.get_by_role("link", name="budget for the Hawaii trip")).to_be_visible()
    expect(receipts.first).to_contain_text("93 %")
    expect(receipts.first).to_contain_text("Forgotten since")
    picture(page, "console-recalls")
    page.get_by_role("main").get_by_text("Why this?").last.click()
    expect(page.get_by_role("main")).to_contain_text("A greeting needs no memory.")


def test_a_recall_says_what_became_of_an_order(person: Person) -> None:
    person.ports.add_receipt(person.name, "below_threshold", {}, steering="refused")
    person.ports.add_receipt(person.name, "below_threshold", {}, steering="forgotten", forgotten=["mem_1", "mem_2"])
    receipts = person.opens("recalls").get_by_role("main").get_by_role("listitem")
    expect(receipts.first).to_contain_text("As the message asked, 2 memories were forgotten")
    expect(receipts.last).to_contain_text("Everything is not forgotten for one sentence: see Data")


def test_a_question_is_explained(person: Person) -> None:
    budget(person)
    page = person.opens("recalls")
    page.get_by_role("main").get_by_role("link", name="explain a question").click()
    page.get_by_label("Question").fill("What is my budget for the Hawaii trip?")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("region", name="Outcome")).to_contain_text("would be given")
    first = page.get_by_role("region", name="What was considered").get_by_role("listitem").first
    expect(first).to_contain_text("Given")
    first.get_by_text("What its relevance is made of").click()
    expect(first.get_by_role("table")).to_be_visible()
    expect(page.get_by_role("region", name="What the model is given")).to_contain_text("$10,000")
    picture(page, "console-question")


def test_errors_are_said_in_the_words_of_the_api(person: Person) -> None:
    (memory,) = person.remembers({"content": "User likes tea"})
    page = person.opens(f"memory/{memory}")
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Corrected text").fill("word " * 200)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("500")
    page.get_by_role("alert").get_by_role("button", name="Dismiss").click()
    expect(page.get_by_role("alert")).to_be_empty()


def test_what_cannot_be_reached_is_said(person: Person) -> None:
    page = person.opens()
    person.context.set_offline(True)
    page.get_by_role("link", name="Recalls").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    person.context.set_offline(False)


@pytest.mark.parametrize(
    ("status", "told"),
    [(200, "Reload the page to sign in"), (401, "Reload the page to sign in"), (503, "does not answer now")],
)
@pytest.mark.parametrize("view", ["Recalls", "Data"])
def test_what_a_proxy_refuses_in_words_of_its_own_is_said(person: Person, view: str, status: int, told: str) -> None:
    page = person.opens()
    page.route("**/v1/memory/*", lambda route: route.fulfill(status=status, body="no"))
    page.get_by_role("link", name=view, exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(told)
    if view == "Recalls":
        expect(page.get_by_text("This cannot be shown now.")).to_be_visible()


def test_a_page_to_sign_in_is_neither_an_export_nor_a_report(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "memories.ndjson"
    file.write_text("{}")
    page = person.opens("data")
    page.route("**/v1/memory/*port*", lambda route: route.fulfill(status=200, content_type="text/html", body="Sign in"))
    for name in ("Export", "Import"):
        if name == "Import":
            page.get_by_label("File").set_input_files(file)
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("Reload the page to sign in")
        page.get_by_role("button", name="Dismiss").click()


def test_a_memory_is_pinned_and_pinned_ones_are_found(person: Person) -> None:
    person.remembers({"content": "User is allergic to peanuts"}, {"content": "User likes tea"})
    page = person.opens()
    rows = page.get_by_role("main").get_by_role("listitem")
    page.get_by_role("link", name="User is allergic to peanuts").click()
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(said(page)).to_contain_text("Pinned")
    expect(page.get_by_role("button", name="Unpin")).to_be_focused()
    person.opens("question").get_by_label("Question").fill("What should I cook for dinner in Rome?")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("region", name="Outcome")).to_contain_text("would be given")
    expect(page.get_by_role("region", name="What was considered")).to_contain_text("peanuts")
    page.get_by_role("link", name="Memories").click()
    page.get_by_label("Pinned only").check()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Pinned")
    rows.get_by_role("link").click()
    page.get_by_role("button", name="Unpin").click()
    expect(said(page)).to_contain_text("Unpinned")
    person.opens("memories?pinned=true")
    expect(page.get_by_role("main")).to_contain_text("Nothing fits.")


def test_an_insight_shows_what_it_was_made_from(person: Person) -> None:
    (tea,) = person.remembers({"content": "User drinks tea each day"})
    (insight,) = person.remembers(
        {"content": "User loves tea", "type": "reflective", "metadata": {"derived_from": [tea, "mem_gone"]}}
    )
    page = person.opens(f"memory/{insight}")
    premises = page.get_by_role("region", name="What it was made from").get_by_role("listitem")
    expect(premises).to_have_text(["User drinks tea each day", "Forgotten since"])
