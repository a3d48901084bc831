"""Documents of organisations over real parts: SQLite, Milvus Lite, the operator's port; by HTTP and by command."""

import asyncio
import http.server
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from typer.testing import CliRunner, Result

from semrouter_memory.cli import app as command_line
from semrouter_memory.errors import InvalidRequestError, NotFoundError, StoreUnavailableError
from semrouter_memory.knowledge import service
from semrouter_memory.knowledge.reading import ReadDocument
from semrouter_memory.model import Criteria, OwnerKind, Scope
from semrouter_memory.store import memory_collection
from semrouter_memory.store.connection import MilvusConnection
from tests.component.test_management_files import TOKEN, House, living_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACME = Scope("acme", kind=OwnerKind.ORGANISATION)
HANDBOOK = """# Handbook

## Leave

Employees have thirty days of vacation a year.

## Travel

Trains are booked by the assistant.
"""

Run = Callable[..., Awaitable[Result]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    directory = tmp_path_factory.mktemp("house")
    async with living_in(directory / "data", directory / "run") as opened:
        yield opened


@pytest.fixture
def run(house: House) -> Run:
    async def invoke(*arguments: str, org: str = "acme") -> Result:
        connection = ["--url", f"unix:{house.sockets}/operator.sock", "--operator-token-file", f"{house.sockets}/token"]
        return await asyncio.to_thread(
            CliRunner().invoke, command_line, ["knowledge", *arguments, "--org", org, *connection]
        )

    return invoke


async def _listed(run: Run, org: str = "acme") -> dict[str, dict[str, object]]:
    result = await run("list", "--json", org=org)
    return {each["title"]: each for each in json.loads(result.stdout)}


async def _contents(house: House, owner: Scope = ACME) -> set[str]:
    """All that the collection holds of the owner."""
    rows = await house.store.secondary("knowledge").page(Criteria(owner), limit=1000)
    return {row.content for row in rows.memories}


@pytest.fixture
def site() -> Iterator[str]:
    """A web server with one page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("last-modified", "Fri, 02 Jan 2026 03:04:05 GMT")
            self.end_headers()
            self.wfile.write(b"<title>Of the site</title><p>Tea is free, too.")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def test_a_document_from_its_beginning_to_its_end(house: House, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "handbook.md"
    file.write_text(HANDBOOK)
    added = await run("add", str(file), "--tag", "staff")
    assert (added.exit_code, added.stdout) == (0, "1 added, 0 refreshed, 0 unchanged, 0 refused\n")
    document = (await _listed(run))["Handbook"]
    assert document | {"tags": ["staff"], "kind": "Markdown", "passages": 2, "complete": True} == document
    shown = json.loads((await run("show", str(document["id"]))).stdout)
    assert [(each["context"], each["content"]) for each in shown["text"]] == [
        ("Handbook > Leave", "Employees have thirty days of vacation a year."),
        ("Handbook > Travel", "Trains are booked by the assistant."),
    ]

    again = await run("add", str(file), "--tag", "staff")
    assert "1 unchanged" in again.stdout
    file.write_text(HANDBOOK.replace("thirty", "31"))
    refreshed = await run("refresh")
    assert "1 refreshed" in refreshed.stdout
    assert (await _listed(run))["Handbook"]["tags"] == ["staff"]
    assert await _contents(house) == {
        "Handbook",
        "Employees have 31 days of vacation a year.",
        "Trains are booked by the assistant.",
    }

    assert await _listed(run, org="other") == {}
    assert isinstance((await run("show", str(document["id"]), org="other")).exception, NotFoundError)
    assert isinstance((await run("remove", str(document["id"]), org="other")).exception, NotFoundError)
    removed = await run("remove", str(document["id"]))
    assert removed.stdout == f"removed {document['id']}, 2 passages\n"
    assert await _listed(run) == {}
    assert await _contents(house) == set()
    # What was removed may be added again.
    assert "1 added" in (await run("add", str(file))).stdout
    assert len((await _listed(run))["Handbook"]) > 0
    assert (await run("remove", str(document["id"]))).exit_code == 0


async def test_a_refreshed_document_embeds_only_what_is_new(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.md"
    sections = [f"## Part {number}\n\nThis is the text of part {number}." for number in range(20)]
    file.write_text("\n\n".join(["# Long", *sections]))
    await run("add", str(file))
    embedded: list[str] = []
    embed = house.service._backends.embedder.embed_passages

    async def counting(texts: list[str]) -> object:
        embedded.extend(texts)
        return await embed(texts)

    monkeypatch.setattr(house.service._backends.embedder, "embed_passages", counting)
    file.write_text("\n\n".join(["# Long", *sections[:9], "## Part X\n\nThis is new.", *sections[11:]]))
    assert "1 refreshed" in (await run("add", str(file))).stdout
    assert embedded == ["Long > Part X This is new."]
    document = (await _listed(run))["Long"]
    assert document["passages"] == 19
    assert len(await _contents(house)) == 20
    await run("remove", str(document["id"]))


async def test_a_directory_is_added_and_bad_files_are_named_and_change_nothing(
    house: House, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "good.txt").write_text("Lunch is at noon.")
    (tmp_path / "sub" / "page.html").write_text("<title>Page</title><p>Coffee is free.")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 torn")
    (tmp_path / "ignored.bin").write_bytes(b"\x00")
    result = await run("add", str(tmp_path))
    assert result.exit_code == 1
    assert "2 added, 0 refreshed, 0 unchanged, 1 refused" in result.stdout
    assert f"{tmp_path}/bad.pdf: is damaged or no PDF document" in result.stderr
    listed = await _listed(run)
    assert set(listed) == {"good.txt", "Page"}
    assert "1 refused" in (await run("add", str(tmp_path / "missing.txt"))).stdout
    # A new version that cannot be read leaves the old one.
    (tmp_path / "good.txt").write_bytes(b"\xff\xfe\x00")
    assert (await run("refresh", str(listed["good.txt"]["id"]))).exit_code == 1
    assert "Lunch is at noon." in await _contents(house)
    (tmp_path / "sub" / "page.html").unlink()
    missing = await run("refresh", str(listed["Page"]["id"]))
    assert "page.html: cannot be read: No such file" in missing.stderr
    for each in listed.values():
        await run("remove", str(each["id"]))


async def test_a_document_that_is_too_large_is_named_and_keeps_no_other_back(run: Run, tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.write_bytes(b"x" * (32 * 1024 * 1024 + 1))
    (tmp_path / "small.txt").write_text("Lunch is at noon.")
    result = await run("add", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "1 added, 0 refreshed, 0 unchanged, 1 refused\n")
    assert f"{large}: the body is larger than 33554432 bytes" in result.stderr
    for each in (await _listed(run)).values():
        await run("remove", str(each["id"]))


async def test_a_page_is_fetched_by_the_command(run: Run, site: str) -> None:
    assert "1 added" in (await run("add", f"{site}/page")).stdout
    document = (await _listed(run))["Of the site"]
    assert (document["kind"], document["published_at"]) == ("HTML", "2026-01-02T03:04:05Z")
    gone = await run("add", f"{site}/gone")
    assert (gone.exit_code, gone.stderr) == (1, f"{site}/gone: its server answers 404\n")
    await run("remove", str(document["id"]))


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("0001-01-01T00:00:00+14:00", None),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
    ],
)
async def test_a_document_of_any_time_is_listed_or_refused(house: House, time: str, shown: str | None) -> None:
    """One that no clock in UTC shows would keep every document of its owner from being listed and searched."""
    async with house.http(token=TOKEN) as client:
        at = {"owner": "org:acme", "source": "old.txt", "published_at": time}
        added = (await client.post("/v1/knowledge", params=at, content="Lunch is at noon.")).json()
        assert added.get("error", {}).get("param") == (None if shown else "published_at")
        listed = (await client.get("/v1/knowledge", params={"owner": "org:acme"})).json()["data"]
        assert [each["published_at"] for each in listed] == ([shown] if shown else [])
        if shown:
            await client.delete(f"/v1/knowledge/{added['id']}", params={"owner": "org:acme"})


async def test_the_collection_is_not_listed_among_those_of_memories(house: House) -> None:
    assert set(await house.store.collections.embeddings()) == {"agentic_memory"}


async def test_a_document_that_is_removed_while_it_is_added_stays_removed(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("First version.")
    await run("add", str(file))
    document = (await _listed(run))["file.txt"]
    file.write_text("Second version.")
    embed = house.service._backends.embedder.embed_passages

    async def slow(texts: list[str]) -> object:
        monkeypatch.undo()
        await asyncio.to_thread(lambda: None)
        async with house.http(token=TOKEN) as client:
            await client.delete(f"/v1/knowledge/{document['id']}", params={"owner": "org:acme"})
        return await embed(texts)

    monkeypatch.setattr(house.service._backends.embedder, "embed_passages", slow)
    result = await run("add", str(file))
    assert "was removed while it was added" in result.stderr
    assert await _contents(house) == set()


async def test_a_removal_that_was_interrupted_is_completed_when_it_is_repeated(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the rows are gone: the document's own is among the first."""
    file = tmp_path / "handbook.md"
    file.write_text(HANDBOOK)
    await run("add", str(file), org="broken")
    document = str((await _listed(run, "broken"))["Handbook"]["id"])
    delete, deleted = MilvusConnection.delete, list[str]()

    async def once(self: MilvusConnection, keys: Sequence[str]) -> None:
        if deleted:
            raise StoreUnavailableError("away")
        deleted.extend(keys)
        await delete(self, keys)

    with monkeypatch.context() as broken:
        broken.setattr(MilvusConnection, "delete", once)
        broken.setattr(memory_collection, "_KEYS_BATCH", 1)
        assert (await run("remove", document, org="broken")).exit_code != 0
    owner = Scope("broken", kind=OwnerKind.ORGANISATION)
    assert len(deleted) == 1
    assert len(await _contents(house, owner)) == 2
    assert (await run("remove", document, org="broken")).exit_code == 0
    assert await _contents(house, owner) == set()
    assert isinstance((await run("remove", document, org="broken")).exception, NotFoundError)


async def test_a_refresh_that_was_interrupted_is_completed_when_it_is_repeated(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old version said stays in no search: until it is gone the document is not complete, and read again."""
    file = tmp_path / "handbook.md"
    file.write_text(HANDBOOK)
    await run("add", str(file), org="torn")
    file.write_text(HANDBOOK.replace("thirty", "31"))

    async def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as broken:
        broken.setattr(MilvusConnection, "delete", away)
        assert (await run("refresh", org="torn")).exit_code != 0
    assert (await _listed(run, "torn"))["Handbook"]["complete"] is False
    assert "1 refreshed" in (await run("refresh", org="torn")).stdout
    assert (await _listed(run, "torn"))["Handbook"]["complete"] is True
    owner = Scope("torn", kind=OwnerKind.ORGANISATION)
    new = {"Employees have 31 days of vacation a year.", "Trains are booked by the assistant."}
    assert await _contents(house, owner) == {"Handbook", *new}


@pytest.mark.parametrize("stored", [None, "# Rules\n\n## A\n\nAlpha.\n\n## B\n\nBeta."])
async def test_of_two_versions_that_are_added_at_the_same_time_the_last_is_stored_whole(
    house: House, monkeypatch: pytest.MonkeyPatch, stored: str | None
) -> None:
    last, other = (
        "# Rules\n\n## A\n\nAlpha.\n\n## B\n\nBeta.\n\n## C\n\nGamma.",
        "# Rules\n\n## A\n\nAlpha.\n\n## D\n\nDelta.",
    )
    at = {"owner": "org:acme", "source": "rules.md"}
    embed = house.service._backends.embedder.embed_passages
    async with house.http(token=TOKEN) as client:

        async def added(text: str) -> str:
            response = await client.post("/v1/knowledge", params=at, content=text)
            return str(response.raise_for_status().json()["id"])

        async def slow(texts: list[str]) -> object:
            monkeypatch.undo()
            await added(other)
            return await embed(texts)

        if stored is not None:
            await added(stored)
        monkeypatch.setattr(house.service._backends.embedder, "embed_passages", slow)
        document = await added(last)
        shown = (await client.get(f"/v1/knowledge/{document}", params={"owner": "org:acme"})).json()
        assert [each["content"] for each in shown["text"]] == ["Alpha.", "Beta.", "Gamma."]
        assert await _contents(house) == {"Rules", "Alpha.", "Beta.", "Gamma."}
        await client.delete(f"/v1/knowledge/{document}", params={"owner": "org:acme"})


async def test_documents_are_read_one_after_the_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once they take the few threads in which memories are learned and written."""
    reading = 0
    most = 0

    def slow(source: str, *_: object) -> ReadDocument:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        time.sleep(0.05)
        reading -= 1
        raise InvalidRequestError(f"{source}: holds no text")

    monkeypatch.setattr(service, "read", slow)
    async with house.http(token=TOKEN) as http:
        sources = [{"owner": "org:acme", "source": f"slow{number}.md"} for number in range(20)]
        answers = await asyncio.gather(*(http.post("/v1/knowledge", params=each, content=b"x") for each in sources))
    assert {answer.status_code for answer in answers} == {400}
    assert most == 1
