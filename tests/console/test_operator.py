"""What an operator does in the console of their port."""

from playwright.sync_api import expect

from tests.console.conftest import CONSOLE, Person, budget, picture, said
from tests.management_ports import TOKEN


def test_an_operator_signs_in_and_out(person: Person) -> None:
    page = person.page
    page.goto(person.ports.operator_url + CONSOLE)
    page.get_by_label("Operator's token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("missing or wrong")
    page.get_by_label("Operator's token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in as operator")
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"


def test_a_link_brings_the_token_and_does_not_keep_it(person: Person) -> None:
    budget(person)
    page = person.operates(owner=f"user:{person.name}")
    expect(page.get_by_role("link", name="Ottilie")).to_be_visible()
    assert TOKEN not in page.url
    page.go_back()
    assert TOKEN not in page.url


def test_health_and_counts_are_shown(person: Person) -> None:
    page = person.operates()
    health = page.get_by_role("region", name="Health")
    expect(health).to_contain_text("Ready")
    expect(health).to_contain_text("Available")
    expect(page.get_by_role("region", name="Turns")).to_contain_text("Accepted")
    expect(page.get_by_role("region", name="Collections")).to_contain_text("In use")
    page.get_by_role("button", name="Refresh").click()
    expect(said(page)).to_contain_text("Refreshed.")
    picture(page, "console-operator")


def test_the_memories_of_a_user_are_opened_by_id(person: Person) -> None:
    budget(person)
    page = person.operates()
    page.get_by_label("Id").fill(person.name)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="Ottilie").click()
    page.get_by_role("button", name="Forget…").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(said(page)).to_contain_text("Forgotten.")
    assert not any("Ottilie" in content for content in person.contents)
    page.get_by_role("link", name="Overview").click()
    page.get_by_label("Whose").select_option("Organisation")
    page.get_by_label("Id").fill("acme")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("banner")).to_contain_text("org:acme")
    expect(page.get_by_role("main")).to_contain_text("Nothing is remembered yet.")


def test_turns_that_wait_are_shown_and_dropped(person: Person) -> None:
    person.ports.append(person.name, "I live in Oslo <b>now</b>")
    page = person.operates("Queue")
    turn = page.get_by_role("main").get_by_role("listitem").filter(has_text=person.name)
    expect(turn).to_contain_text("Waiting")
    expect(turn).not_to_contain_text("Oslo")
    turn.get_by_text("Show what was said").click()
    expect(turn).to_contain_text("I live in Oslo <b>now</b>")
    picture(page, "console-queue")
    turn.get_by_role("button", name="Drop…").click()
    page.get_by_role("dialog", name="Drop this turn?").get_by_role("button", name="Drop").click()
    expect(said(page)).to_contain_text("Dropped.")
    expect(turn).to_have_count(0)


def test_dead_letters_are_retried(person: Person) -> None:
    person.ports.append(person.name, "I live in Oslo")
    person.ports.bury(person.name)
    page = person.operates("Dead letters")
    turn = page.get_by_role("main").get_by_role("listitem").filter(has_text=person.name)
    expect(turn).to_contain_text("1 failure: model_away")
    turn.get_by_role("button", name="Retry").click()
    expect(said(page)).to_contain_text("It waits again.")
    expect(turn).to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text("No dead letters.")
    expect(page.get_by_role("button", name="Retry all")).to_have_count(0)
    person.ports.bury(person.name)
    page.get_by_role("link", name="Queue").click()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("button", name="Retry all").click()
    expect(said(page)).to_contain_text("again.")
    expect(page.get_by_role("main")).to_contain_text("No dead letters.")
    page.get_by_role("link", name="Queue").click()
    turn.get_by_role("link", name=person.name).click()
    expect(page.get_by_role("banner")).to_contain_text(person.name)


def test_what_an_operator_opened_is_gone_after_signing_out(person: Person) -> None:
    budget(person)
    page = person.operates(owner=f"user:{person.name}")
    page.reload()
    expect(page.get_by_role("link", name="Ottilie")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in as operator")
    expect(page.get_by_role("main")).not_to_contain_text("Ottilie")
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
