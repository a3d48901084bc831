"""A person with a browser: Debian's Chromium, real ports behind it, and what they remember.

Chromium is the one on the PATH, else the one that `make chromium` unpacked. Without either the tests are skipped, and fail
where `CI` is set. With `SEMROUTER_MEMORY_SCREENSHOTS` naming a directory, the pictures of the documentation are written.
"""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.management_ports import TOKEN, Ports, open_ports

_UNPACKED = Path(__file__).parents[2] / ".cache" / "chromium" / "chromium"
_PICTURES = os.environ.get("SEMROUTER_MEMORY_SCREENSHOTS")
_RULES = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
CONSOLE = "/v1/memory/console"
_WITHIN_MS = 15_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a file: its driver occupies the thread's event loop, which other files need. The sandbox needs rights that
    containers do not have."""
    program = _require_program()
    expect.set_options(timeout=_WITHIN_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with open_ports(tmp_path_factory.mktemp("ports")) as opened:
        yield opened


@dataclass
class Person:
    """A user of whom something may be remembered, and the browser in front of them.

    Attributes:
        name: their id, new for each test.
        complaints: what the browser's console said, pages that failed, and dialogs that opened.
        foreign: addresses of other hosts that were asked for.
    """

    name: str
    ports: Ports
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def opens(self, view: str = "memories") -> Page:
        self.page.goto(f"{self.ports.user_url}{CONSOLE}#/{view}")
        return self.heading()

    def operates(self, view: str = "", *, owner: str | None = None) -> Page:
        """The operator's port, with a link that carries the token."""
        named = f"&owner={owner}" if owner else ""
        self.page.goto(f"{self.ports.operator_url}{CONSOLE}#token={TOKEN}{named}")
        self.heading()
        if view:
            self.page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        return self.heading()

    def heading(self) -> Page:
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def remembers(self, *lines: dict[str, Any]) -> list[str]:
        """Import what an export would hold; returns the ids."""
        ids = [f"mem_{uuid.uuid4().hex}" if "id" not in line else line["id"] for line in lines]
        body = "\n".join(
            json.dumps({"id": name, "source": "conversation", **line}) for name, line in zip(ids, lines, strict=True)
        )
        answer = self.asks("POST", "/v1/memory/import", content=body)
        assert answer["refused"] == 0, answer
        return ids

    def asks(self, method: str, path: str, **request: Any) -> Any:
        """The API, without the browser."""
        with httpx.Client(trust_env=False, verify=False, base_url=self.ports.user_url) as http:
            answer = http.request(method, path, headers={"x-authz-user-id": self.name}, **request)
        return answer.raise_for_status().json()

    @property
    def contents(self) -> list[str]:
        return [each["content"] for each in self.asks("GET", "/v1/memory")["data"]]


@pytest.fixture
def new_person(browser: Browser, ports: Ports) -> Iterator[Callable[..., Person]]:
    """Makes a person; at the end nobody's browser may have complained."""
    people: list[Person] = []

    def new(name: str = "", **options: Any) -> Person:
        name = name or f"alice-{uuid.uuid4().hex[:8]}"
        context = browser.new_context(
            extra_http_headers={"x-authz-user-id": name},
            locale="en-GB",
            device_scale_factor=2 if _PICTURES else 1,
            **{"timezone_id": "UTC", "viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options},
        )
        context.set_default_timeout(_WITHIN_MS)
        person = Person(name, ports, context, context.new_page())
        _watch(person)
        people.append(person)
        return person

    yield new
    for person in people:
        person.context.close()
        assert person.complaints == []
        assert person.foreign == []


@pytest.fixture
def person(new_person: Callable[..., Person]) -> Person:
    return new_person()


def _watch(person: Person) -> None:
    own = (person.ports.user_url, person.ports.operator_url, "blob:", "data:")

    def said_in_console(message: ConsoleMessage) -> None:
        # What the API refuses is said on the page, and the browser's own note of it is no fault.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            person.complaints.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith(own):
            person.foreign.append(request.url)

    def opened(dialog: Dialog) -> None:
        person.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    person.page.on("console", said_in_console)
    person.page.on("pageerror", lambda error: person.complaints.append(str(error)))
    person.page.on("dialog", opened)
    person.page.on("request", asked)


def barriers(page: Page) -> list[str]:
    """What axe finds, and whether the page scrolls sideways."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("options => axe.run(document, options)", _RULES)["violations"]
    told = [f"{each['id']}: {node['html'][:160]} {node['failureSummary']}" for each in found for node in each["nodes"]]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        told.append("the page is wider than the screen")
    return told


def picture(page: Page, name: str) -> None:
    """Write a picture for the documentation, where these were asked for."""
    if _PICTURES:
        Path(_PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(_PICTURES) / f"{name}.png")


def said(page: Page) -> Locator:
    """What the page tells of what was done."""
    return page.locator("#status")


def days_ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


def budget(person: Person) -> dict[str, str]:
    """A statement that replaced another, the quote behind it, and more of the same person."""
    old, new, quote = (f"mem_{uuid.uuid4().hex}" for _ in range(3))
    person.remembers(
        {
            "id": old,
            "content": "User's budget for the Hawaii trip is $8,000",
            "observed_at": days_ago(40),
            "superseded_at": days_ago(9),
            "superseded_by": new,
        },
        {
            "id": quote,
            "content": "We talked it over: my budget for the Hawaii trip is $10,000 now.",
            "observed_at": days_ago(9),
            "metadata": {
                "form": "quote",
                "statements": [
                    {
                        "attribute": "budget for the Hawaii trip",
                        "value": "$10,000",
                        "text": "User's budget for the Hawaii trip is $10,000",
                    }
                ],
            },
        },
        {
            "id": new,
            "content": "User's budget for the Hawaii trip is $10,000",
            "observed_at": days_ago(9),
            "metadata": {"quote": quote, "replaces": [old]},
        },
        {
            "content": "I'm allergic to peanuts, so please never suggest satay.",
            "observed_at": days_ago(21),
            "importance": 0.9,
            "metadata": {"form": "quote"},
        },
        {
            "content": "Next time, run the smoke test before the deployment.",
            "type": "procedural",
            "observed_at": days_ago(3),
            "project_id": "billing",
            "metadata": {"form": "quote"},
        },
        {
            "type": "episodic",
            "source": "session",
            "goal": "Deploy the billing service",
            "steps": ["helm upgrade", "smoke test"],
            "outcome": "Rolled back: the cluster runs an old version",
            "lessons": ["Verify the cluster's version first"],
            "observed_at": days_ago(3),
            "project_id": "billing",
        },
        {
            "content": "User's sister is called Ottilie and lives in Bergen",
            "source": "api",
            "observed_at": days_ago(62),
        },
    )
    return {"old": old, "new": new, "quote": quote}


def _require_program() -> str:
    program = shutil.which("chromium") or (str(_UNPACKED) if _UNPACKED.exists() else None)
    if program is None:
        reason = "no chromium: make chromium, or install Debian's package of that name"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return program
