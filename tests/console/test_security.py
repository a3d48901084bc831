"""The console in hostile hands: other sites, other people, and memories that were written to be executed."""

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.console.conftest import CONSOLE, Person
from tests.management_ports import TOKEN, Ports

FILES = sorted((Path(__file__).parents[2] / "semrouter_memory" / "manage" / "console").iterdir())
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>",
    '"><a href="javascript:alert(4)">javascript:alert(4)</a>{{7*7}}${7*7}',
    "safe \u202etxt.exe\u202d \u2066isolated\u2069 and then right \u200fto left",
    "long" * 110,
)


@pytest.fixture(scope="module")
def other_site() -> Iterator[str]:
    """A page of another origin; `localhost` is another site than 127.0.0.1."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Other</title>")

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_hostile_text_is_text(person: Person) -> None:
    """In the list, in a memory with its quote and history, in filters, and in what recall explains."""
    ids = person.remembers(*({"content": text, "project_id": "<b>p</b>"} for text in HOSTILE))
    (statement,) = person.remembers(
        {"content": HOSTILE[0] + ".", "metadata": {"quote": ids[0]}, "session_id": HOSTILE[1]}
    )
    page = person.opens()
    for text in HOSTILE:
        expect(page.get_by_role("main").get_by_text(text, exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    for view in (
        f"memory/{statement}",
        f"memories?q={HOSTILE[0]}&type={HOSTILE[0]}",
        f"memory/{HOSTILE[0]}",
        HOSTILE[0],
    ):
        person.opens(view)
    person.opens("question").get_by_label("Question").fill(HOSTILE[0])
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("region", name="What was considered")).to_contain_text("onerror")
    assert page.locator("main img, main script, main svg, main b, main a[href^=javascript]").count() == 0


def test_a_direction_override_ends_with_its_text(person: Person) -> None:
    person.remembers({"content": HOSTILE[2]})
    page = person.opens()
    row = page.get_by_role("main").get_by_role("listitem")
    expect(row).to_contain_text("Conversation")
    assert row.locator(".said").first.evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"


def test_the_page_and_its_parts_may_only_come_from_here(ports: Ports) -> None:
    """Every answer of both ports says so, errors included."""
    with httpx.Client(trust_env=False, verify=False, headers={"x-authz-user-id": "alice"}) as http:
        for url in (ports.user_url, ports.operator_url):
            for path in (CONSOLE, f"{CONSOLE}/console.js", "/v1/memory", "/v1/memory/nothing", "/nothing"):
                headers = http.get(url + path).headers
                assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
                assert "frame-ancestors 'none'; base-uri 'none'" in headers["content-security-policy"]
                assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")
                assert headers["referrer-policy"] == "no-referrer"
                assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
                assert headers["cache-control"] == (
                    "no-cache" if CONSOLE in path and http.get(url + path).is_success else "no-store"
                )


def test_no_script_or_style_runs_but_those_of_the_files(person: Person) -> None:
    """The policy holds in the browser: what a flaw let into the page would still not run, nor ask another host."""
    page = person.opens()
    page.evaluate(
        """() => {
            const inserted = document.createElement('script');
            inserted.append('window.ran = true');
            document.body.append(inserted);
            document.body.append(Object.assign(document.createElement('img'), {src: 'http://other.invalid/x'}));
        }"""
    )
    with pytest.raises(Exception, match="Trusted"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")
    assert page.evaluate("window.ran") is None
    assert any("script" in each for each in person.complaints)
    person.complaints.clear()
    person.foreign.clear()


def test_it_cannot_be_framed(person: Person, other_site: str) -> None:
    page = person.page
    page.goto(other_site)
    with page.expect_response(person.ports.user_url + CONSOLE):
        page.evaluate(
            "url => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))",
            person.ports.user_url + CONSOLE,
        )
    expect(page.frame_locator("iframe").locator("body")).not_to_be_empty()
    assert "refused to connect" in page.frame_locator("iframe").locator("body").inner_text()
    person.complaints.clear()
    person.foreign.clear()


def test_another_site_changes_nothing(person: Person, other_site: str) -> None:
    """Though the browser sends the identity along, as it would a cookie: simple requests and forms, which need no permission."""
    person.remembers({"content": "User likes tea"})
    page = person.page
    page.goto(other_site)
    page.evaluate(
        """async url => {
            await fetch(`${url}/v1/memory/import`, {method: 'POST', mode: 'no-cors', body: '{"content": "User likes spam"}'}).catch(() => {});
            await fetch(`${url}/v1/memory`, {method: 'POST', mode: 'no-cors', body: '{"content": "User likes spam"}'}).catch(() => {});
        }""",
        person.ports.user_url,
    )
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        page.evaluate(
            """url => {
                const form = Object.assign(document.createElement('form'), {method: 'post', action: url, enctype: 'text/plain'});
                form.append(Object.assign(document.createElement('input'), {name: '{"content": "User likes spam", "x": "', value: '"}'}));
                document.body.append(form);
                form.submit();
            }""",
            f"{person.ports.user_url}/v1/memory/import",
        )
    assert (answered.value.status, answered.value.json()["error"]["code"]) == (403, "cross_site_request")
    assert person.contents == ["User likes tea"]
    person.complaints.clear()
    person.foreign.clear()


UNSAFE = [
    ("POST", "/v1/memory"),
    ("DELETE", "/v1/memory?user_id=alice"),
    ("POST", "/v1/memory/search"),
    ("POST", "/v1/memory/import"),
    ("PATCH", "/v1/memory/mem_1"),
    ("DELETE", "/v1/memory/mem_1"),
    ("PUT", "/v1/memory/settings"),
    ("POST", "/v1/memory/sessions/s/end"),
    ("POST", "/v1/memory/mcp"),
    ("POST", "/v1/knowledge"),
    ("DELETE", "/v1/knowledge/doc_1"),
    ("POST", "/v1/turns/retry"),
    ("DELETE", "/v1/turns/t"),
    ("POST", "/v1/compact"),
    ("POST", "/nothing"),
]
FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1.evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_every_change_that_another_site_asks_for_is_refused(ports: Ports, headers: dict[str, str]) -> None:
    """On both ports, whatever the identity."""
    identity = {"x-authz-user-id": "alice", "authorization": f"Bearer {TOKEN}"}
    with httpx.Client(trust_env=False, verify=False, headers=identity | headers) as http:
        for url in (ports.user_url, ports.operator_url):
            for method, path in UNSAFE:
                answer = http.request(method, url + path)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site_request"), path


@pytest.mark.parametrize(
    "headers", [{}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {"origin": "own"}], ids=str
)
def test_clients_that_are_no_browsers_and_pages_of_our_own_may_change(ports: Ports, headers: dict[str, str]) -> None:
    """Behind TLS the scheme of the page is another one than ours."""
    sent = {"x-authz-user-id": "alice", **headers}
    if "origin" in sent:
        sent["origin"] = ports.user_url.replace("http:", "https:")
    with httpx.Client(trust_env=False, verify=False, headers=sent) as http:
        assert http.post(f"{ports.user_url}/v1/memory", json={"content": "User likes tea"}).status_code == 201


def test_the_page_needs_the_identity_of_the_api(ports: Ports) -> None:
    with httpx.Client(trust_env=False, verify=False) as http:
        for path in (CONSOLE, f"{CONSOLE}/console.js", f"{CONSOLE}/viewer"):
            assert http.get(ports.user_url + path).status_code == 401, path
            assert http.get(ports.user_url + path, headers={"x-authz-user-id": ""}).status_code == 401, path
            assert http.get(ports.user_url + path, headers={"x-authz-user-id": "alice"}).status_code == 200, path
        viewer = http.get(f"{ports.user_url}{CONSOLE}/viewer", headers={"x-authz-user-id": "alice"}).json()
        assert viewer == {"owner": "user:alice"}
        named = http.get(f"{ports.user_url}{CONSOLE}/viewer?owner=user:bob", headers={"x-authz-user-id": "alice"})
        assert named.status_code == 404
        assert http.get(f"{ports.operator_url}{CONSOLE}/viewer").status_code == 401
        assert (
            http.get(f"{ports.operator_url}{CONSOLE}/viewer", headers={"x-authz-user-id": "alice"}).status_code == 401
        )


@pytest.mark.parametrize(
    "name",
    ["../http.py", "..%2fhttp.py", "%2e%2e/http.py", "nothing.js", "console.js/", "index.html%00", "__init__.py"],
)
def test_no_other_file_is_served(ports: Ports, name: str) -> None:
    with httpx.Client(trust_env=False, verify=False, headers={"x-authz-user-id": "alice"}) as http:
        answer = http.get(f"{ports.user_url}{CONSOLE}/{name}")
    assert answer.status_code == 404


def test_a_file_that_did_not_change_is_not_sent_again(ports: Ports) -> None:
    with httpx.Client(trust_env=False, verify=False, headers={"x-authz-user-id": "alice"}) as http:
        address = f"{ports.user_url}{CONSOLE}/console.js"
        tag = http.get(address).headers["etag"]
        again = http.get(address, headers={"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b"")


def test_the_memories_of_others_do_not_exist(new_person: Callable[..., Person]) -> None:
    alice, mallory = new_person(), new_person()
    (memory,) = alice.remembers({"content": "User lives in Oslo"})
    page = mallory.opens(f"memory/{memory}")
    expect(page.get_by_role("main")).to_contain_text("There is no such memory.")
    page.evaluate("location.hash = '#/memories?owner=user:" + alice.name + "'")
    expect(page.get_by_role("main")).to_contain_text("Nothing is remembered yet.")


def test_no_address_changes_whose_page_it_is(person: Person) -> None:
    """A filter in front may take `Authorization` for the identity: somebody's link must not sign a person in as another."""
    sent: list[str] = []
    person.page.on("request", lambda request: sent.append(request.headers.get("authorization", "")))
    person.remembers({"content": "User likes tea"})
    person.page.goto(f"{person.ports.user_url}{CONSOLE}#token=of-another&owner=user:mallory")
    expect(person.heading().get_by_role("main")).to_contain_text("User likes tea")
    assert "#token" not in person.page.url
    person.page.evaluate("location.hash = '#token=of-another'")
    person.page.wait_for_url(f"{person.ports.user_url}{CONSOLE}")
    expect(person.opens().get_by_role("main")).to_contain_text("User likes tea")
    assert sent
    assert set(sent) == {""}


def test_an_address_with_a_slash_at_its_end_leads_to_the_page(person: Person) -> None:
    person.page.goto(f"{person.ports.user_url}{CONSOLE}/")
    expect(person.heading().get_by_role("heading", level=1)).to_have_text("Memories")
    assert person.page.url.partition("#")[0] == person.ports.user_url + CONSOLE


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_writes_markup_or_names_another_host(path: Path) -> None:
    """What the policy forbids in the browsers that know it does not happen in the others either."""
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?:|//\w+\.", text)
        == []
    )
    assert re.findall(r"<style|\sstyle=|\son\w+=\"", text) == []
