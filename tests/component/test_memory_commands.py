"""`semrouter-memory memory ...` against a running API."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from semrouter_memory.app.adapters import record_format
from semrouter_memory.cli.memory import memory_app
from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, NotFoundError, UnavailableError
from semrouter_memory.maintenance.recall_journal import add_receipts
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.model import Scope
from semrouter_memory.retain.redact import Redaction
from semrouter_memory.stack.llm import StandInLlm
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import access_to, backends_of, memory_service, operator_api, reflector

Run = Callable[..., Awaitable[Result]]


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture
async def sidecar(tmp_path: Path) -> AsyncIterator[Path]:
    """Both ports, on Unix sockets in a directory that also holds the operator's token."""
    embedder, log = HashedEmbedder(), SqliteTurnLog(tmp_path / "turns.db", clock=SystemClock())
    store = InMemoryStore(dimension=embedder.dimension, record_format=record_format())
    config = ManagementConfig()
    state = SqliteStateStore(tmp_path / "state.db", clock=SystemClock())
    backends = backends_of(store=store, embedder=embedder, turn_log=log, state=state, clock=SystemClock())
    service = memory_service(backends, redact=Redaction, config=config)
    (tmp_path / "token").write_text("operator-token\n")
    user_api = create_user_api(access_to(service, reflector=reflector(backends, threshold=-1)), config=config)
    users = await serve_http(user_api, f"unix:{tmp_path}/api.sock")
    operators = await serve_http(operator_api(access_to(service)), f"unix:{tmp_path}/operator.sock")
    yield tmp_path
    await asyncio.gather(users.stop(), operators.stop())
    log.close()


@pytest.fixture
def run(sidecar: Path) -> Run:
    async def invoke(*arguments: str, user: str = "alice", input: str | None = None) -> Result:  # noqa: A002
        connection = ["--url", f"unix:{sidecar}/api.sock", "--user", user]
        return await asyncio.to_thread(CliRunner().invoke, memory_app, [*arguments, *connection], input=input)

    return invoke


async def added(run: Run, content: str, *options: str) -> str:
    result = await run("add", content, *options)
    assert result.exit_code == 0, result.output
    memory_id: str = json.loads(result.stdout)["id"]
    return memory_id


async def test_what_recall_would_do_is_explained(run: Run) -> None:
    memory_id = await added(run, "User deploys with make ship")
    table = (await run("explain", "How do I deploy with make ship?", "--threshold", "-1")).output
    assert table.startswith("injected, ")
    assert all(word in table for word in (memory_id, "chosen", "User deploys with make ship"))
    told = json.loads((await run("explain", "How do I deploy with make ship?", "--threshold", "1", "--json")).stdout)
    assert (told["reason"], [each["verdict"] for each in told["data"]]) == ("below_threshold", ["below_threshold"])
    assert (await run("explain", "hello")).output.startswith("greeting, 0 tokens")


async def test_a_users_id_may_have_any_letters(run: Run) -> None:
    memory_id = json.loads((await run("add", "User deploys with make ship", user="zoë")).stdout)["id"]
    for user, found in (("zoë", [memory_id]), ("zoe", [])):
        assert [each["id"] for each in json.loads((await run("list", "--json", user=user)).stdout)["data"]] == found


async def test_receipts_fit_a_narrow_terminal(run: Run, sidecar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semrouter_memory.cli.output._PIPE_WIDTH", 80)
    assert json.loads((await run("receipts", "--json")).stdout) == []
    given = [{"id": f"mem_{index:028}", "owner": "user:alice", "relevance": 0.9} for index in range(6)]
    receipt = {"at": "2027-01-01T09:30:15.123456Z", "project_id": "", "reason": "store_unavailable", "memories": given}
    deleted = "mem_" + "f" * 28
    obeyed = {"steering": "forgotten", "forgotten": [deleted]}
    state = SqliteStateStore(sidecar / "state.db", clock=SystemClock())
    await add_receipts(state, Scope("alice"), [orjson.dumps(receipt | obeyed)], ttl=timedelta(days=1))
    table = (await run("receipts")).output
    assert all(word in table for word in ("2027-01-01 09:30:15", "store_unavailable", "order forgotten"))
    assert all(str(each["id"]) in table for each in given)
    assert deleted in table


async def test_a_question_is_answered_from_memories(run: Run) -> None:
    memory_id = await added(run, "User deploys with make ship")
    told = (await run("reflect", "How do I deploy?")).output.splitlines()
    assert told[0].startswith("Mentioned once, on ")
    assert told[1].startswith("[1] 20")
    assert told[1].endswith(" User deploys with make ship")
    answer = json.loads((await run("reflect", "How do I deploy?", "--project", "", "--limit", "1", "--json")).stdout)
    assert (answer["known"], answer["model"], [each["id"] for each in answer["citations"]]) == (True, None, [memory_id])
    assert (await run("reflect", "How do I deploy?", user="bob")).output == "Nothing that is remembered tells this.\n"


async def test_a_memory_is_pinned_and_unpinned(run: Run) -> None:
    memory_id = await added(run, "User deploys with make ship")
    await added(run, "User likes green tea")
    assert (await run("pin", memory_id)).output == f"pinned {memory_id}\n"
    listed = json.loads((await run("list", "--pinned", "--json")).stdout)["data"]
    assert [(each["id"], each["pinned"]) for each in listed] == [(memory_id, True)]
    assert (await run("unpin", memory_id)).output == f"unpinned {memory_id}\n"
    assert json.loads((await run("list", "--pinned", "--json")).stdout)["data"] == []
    assert isinstance((await run("pin", "mem_none")).exception, NotFoundError)


async def test_memories_are_filtered_by_category_metadata_and_importance(run: Run) -> None:
    await added(run, "User deploys with make ship", "--category", "work", "--metadata", '{"team": "core"}')
    bees = await added(run, "User keeps bees", "--importance", "0.9")
    for command in (["list"], ["search", "User"]):
        found = [
            (await run(*command, "--filter", wanted)).output
            for wanted in ("category=work,metadata.team=core", "min_importance=0.6")
        ]
        assert ["make ship" in each for each in found] == [True, False]
        assert ["keeps bees" in each for each in found] == [False, True]
    told = await run("explain", "Do I keep bees?", "--threshold", "-1", "--filter", "category=work", "--json")
    assert {each["id"]: each["verdict"] for each in json.loads(told.stdout)["data"]}[bees] == "filtered"
    assert json.loads((await run("update", bees, "--category", "hobby")).stdout)["category"] == "hobby"
    assert json.loads((await run("update", bees, "--category", "")).stdout)["category"] == ""
    refused = await run("list", "--filter", "work")
    assert "category=work" in str(refused.exception)


async def test_remembering_is_paused_and_resumed(run: Run) -> None:
    assert (await run("pause")).output.startswith("paused since 20")
    assert json.loads((await run("settings")).stdout)["paused"] is True
    assert json.loads((await run("settings", user="bob")).stdout)["paused"] is False
    assert (await run("resume")).output == "resumed\n"
    assert json.loads((await run("settings")).stdout)["paused_at"] is None


async def test_a_memory_from_its_beginning_to_its_end(run: Run) -> None:
    options = ("--type", "procedural", "--project", "work", "--importance", "0.9", "--metadata", '{"a": 1}')
    memory_id = await added(run, "User deploys with make ship", *options)
    shown = json.loads((await run("get", memory_id)).stdout)
    assert (shown["type"], shown["project_id"], shown["importance"]) == ("procedural", "work", 0.9)
    assert shown["metadata"] == {"a": 1}
    assert "make ship" in (await run("search", "how do I deploy?", "--threshold", "0.1")).output
    assert "make ship" in (await run("list", "--type", "procedural", "--project", "work")).output
    updated = await run("update", memory_id, "--content", "User deploys with make release")
    assert json.loads(updated.stdout)["content"] == "User deploys with make release"
    assert (await run("forget", memory_id)).exit_code == 0
    assert isinstance((await run("get", memory_id)).exception, NotFoundError)


async def test_an_episode_is_stored_changed_and_listed_by_its_parts(run: Run) -> None:
    parts = (
        "--goal",
        "Book a room",
        "--step",
        "search",
        "--step",
        "pay",
        "--outcome",
        "Booked",
        "--lesson",
        "Ask first",
    )
    stored = json.loads((await run("add", *parts)).stdout)
    assert stored["content"] == "Goal: Book a room. Steps: search, pay. Outcome: Booked. Lesson: Ask first."
    changed = json.loads((await run("update", stored["id"], "--outcome", "Cancelled")).stdout)
    assert (changed["outcome"], changed["steps"]) == ("Cancelled", ["search", "pay"])
    assert "Cancelled" in (await run("list", "--goal", "room", "--outcome", "cancel")).output
    assert "Cancelled" not in (await run("list", "--outcome", "booked")).output


async def test_lists_and_hits_as_json(run: Run) -> None:
    for number in range(3):
        await added(run, f"tea {number}")
    page = await run("list", "--limit", "2")
    assert "more: --cursor" in page.output
    listed = json.loads((await run("list", "--json")).stdout)
    assert len(listed["data"]) == 3

    found = json.loads((await run("search", "tea", "--json", "--limit", "2")).stdout)
    assert "more: --cursor" in (await run("search", "tea", "--limit", "2")).output
    following = ("--limit", "2", "--cursor", found["next_cursor"])
    further = json.loads((await run("search", "tea", "--json", *following)).stdout)
    assert [len(page["data"]) for page in (found, further)] == [2, 1]
    assert {each["id"] for page in (found, further) for each in page["data"]} == {each["id"] for each in listed["data"]}


async def test_an_export_is_a_line_of_json_for_each(run: Run) -> None:
    """A line ends at a line feed and nowhere else, whatever else separates lines in Unicode."""
    said = [f"tea{separator}{number}" for number, separator in enumerate("\n\r\x0b\x0c\x1c\x85\u2028\u2029")]
    for content in said:
        await added(run, content)
    *lines, end = (await run("export")).stdout.split("\n")
    assert sorted(json.loads(line)["content"] for line in lines) == sorted(said)
    assert end == ""


async def test_a_period_selects_by_when_it_was_said(run: Run) -> None:
    lines = [json.dumps({"content": f"tea {day}", "observed_at": f"2026-03-0{day}T12:00:00Z"}) for day in (1, 2, 3)]
    assert (await run("import", "-", input="\n".join(lines))).exit_code == 0
    period = ("--since", "2026-03-02", "--until", "2026-03-02")
    for command in (["list"], ["search", "tea"], ["export"]):
        shown = (await run(*command, *period)).output
        assert [f"tea {day}" in shown for day in (1, 2, 3)] == [False, True, False]
    assert isinstance((await run("list", "--since", "yesterday")).exception, InvalidRequestError)


async def test_names_are_listed(run: Run) -> None:
    memory_id = await added(run, "my sister Anna lives in Porto")
    listed = await run("entities", "--limit", "1")
    assert "sister" in listed.output
    assert "more: --after Anna" in listed.output
    page = json.loads((await run("entities", "--json")).stdout)
    assert [(each["name"], each["memory_ids"]) for each in page["data"]] == [
        ("Anna", [memory_id]),
        ("Porto", [memory_id]),
    ]


async def test_an_export_is_imported_again_and_history_shown(run: Run, tmp_path: Path) -> None:
    """More lines than go into one request; refused ones are named by the line of the file, and by the exit status."""
    file = tmp_path / "memories.jsonl"
    lines = [json.dumps({"content": f"fact {number}", "id": f"mem_{number}"}) for number in range(450)]
    file.write_text("\n".join(lines))
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (0, "450 imported, 0 skipped, 0 refused\n")
    exported = (await run("export")).stdout
    file.write_text(exported + json.dumps({"content": "x", "type": "odd"}) + "\n" + json.dumps({"content": ""}))
    again = await run("import", str(file))
    assert again.exit_code == 1
    assert "0 imported, 450 skipped, 2 refused" in again.stdout
    assert "line 451 (type): " in again.stderr
    assert "line 452 (content): " in again.stderr
    assert (await run("export")).stdout == exported
    report = json.loads((await run("import", str(file), "--json")).stdout)
    assert [error["line"] for error in report["errors"]] == [451, 452]
    assert isinstance((await run("import", str(tmp_path / "none"))).exception, InvalidRequestError)
    piped = await run("import", "-", input=json.dumps({"content": "from a pipe"}))
    assert "1 imported" in piped.stdout
    assert "fact 7" in (await run("history", "mem_7")).stdout
    assert [each["id"] for each in json.loads((await run("history", "mem_7", "--json")).stdout)] == ["mem_7"]


async def test_a_memory_may_expire_or_not(run: Run) -> None:
    memory_id = await added(run, "User is in Rome", "--expires-at", "2096-01-01T00:00:00Z")
    assert json.loads((await run("get", memory_id)).stdout)["expires_at"] == "2096-01-01T00:00:00Z"
    assert json.loads((await run("update", memory_id, "--never-expires")).stdout)["expires_at"] is None
    both = await run("update", memory_id, "--never-expires", "--expires-at", "2096-01-01T00:00:00Z")
    assert isinstance(both.exception, InvalidRequestError)


async def test_an_unknown_session_cannot_be_ended(run: Run) -> None:
    ended = await run("end-session", "a/b c")
    assert isinstance(ended.exception, NotFoundError)
    assert str(ended.exception) == "no such session"


async def test_forgetting_everything_asks_first(run: Run) -> None:
    await added(run, "one", "--project", "trip")
    await added(run, "two")
    assert (await run("forget-all", input="n\n")).exit_code == 1
    assert "forgot 1 memories" in (await run("forget-all", "--project", "trip", input="y\n")).output
    assert "forgot 1 memories" in (await run("forget-all", "--yes")).output


async def test_stored_text_cannot_steer_the_terminal(run: Run) -> None:
    await added(run, "[red]evil\x1b]0;owned\x07")
    output = (await run("list")).output
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "[red]evil" in output


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
async def test_a_terminal_may_lack_the_letters_of_a_memory(run: Run, sidecar: Path, encoding: str) -> None:
    content = "User likes café ☕ 咖啡 😀"
    memory_id = await added(run, content)

    def printed(*arguments: str) -> str:
        command = [sys.executable, "-m", "semrouter_memory", "memory", *arguments]
        command += ["--url", f"unix:{sidecar}/api.sock", "--user", "alice"]
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        return subprocess.run(command, check=True, capture_output=True, env=environment).stdout.decode(encoding)

    assert content.encode(encoding, "backslashreplace").decode(encoding) in await asyncio.to_thread(printed, "list")
    assert json.loads(await asyncio.to_thread(printed, "get", memory_id))["content"] == content


@pytest.mark.parametrize("arguments", [["add", "caf\udce9"], ["get", "caf\udce9"], ["list", "--project", "caf\udce9"]])
async def test_an_argument_in_another_encoding_is_refused(run: Run, arguments: list[str]) -> None:
    """As the shell hands over the bytes of a terminal in Latin-1."""
    result = await run(*arguments)
    assert (type(result.exception), str(result.exception)) == (
        InvalidRequestError,
        "an argument is no text in the terminal's encoding",
    )


async def test_the_operators_port_is_asked_with_the_token(run: Run, sidecar: Path) -> None:
    await added(run, "tea")
    connection = ["--url", f"unix:{sidecar}/operator.sock", "--operator-token-file", str(sidecar / "token")]

    async def operate(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, memory_app, [*arguments, *connection])

    assert "tea" in (await operate("list", "--user", "alice")).output
    assert "tea" not in (await operate("list", "--user", "bob")).output
    assert "forgot 1" in (await operate("forget-all", "--yes", "--user", "alice")).output
    await operate("add", "Meetings are on Monday", "--owner", "org:acme")
    assert "Monday" in (await operate("list", "--owner", "org:acme")).output
    assert "Monday" not in (await operate("list", "--user", "acme")).output
    assert "forgot 1" in (await operate("forget-all", "--yes", "--owner", "org:acme")).output
    assert isinstance((await operate("list")).exception, InvalidRequestError)


@pytest.mark.parametrize("memory_id", [".", "..", ""])
async def test_no_id_is_the_address_of_something_else(run: Run, sidecar: Path, memory_id: str) -> None:
    """`memory/.` is the address of all memories, and at the operator's port deleting that needs no more."""
    await added(run, "tea")
    operator = ["--url", f"unix:{sidecar}/operator.sock", "--operator-token-file", str(sidecar / "token")]
    forgotten = await asyncio.to_thread(
        CliRunner().invoke, memory_app, ["forget", memory_id, *operator, "--user", "alice"]
    )
    assert isinstance(forgotten.exception, InvalidRequestError)
    assert isinstance((await run("end-session", memory_id)).exception, InvalidRequestError)
    assert "tea" in (await run("list")).output


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["get", "mem_unknown"], NotFoundError, "no such memory"),
        (["add", " "], InvalidRequestError, "blank"),
        (["add", "x", "--metadata", "[]"], InvalidRequestError, "JSON object"),
        (["update", "mem_unknown"], InvalidRequestError, "nothing to change"),
        (["list", "--user", "x" * 300], MemoryServiceError, "not authenticated"),
        (["list", "--user", ""], InvalidRequestError, "say whose"),
        (["list", "--url", "unix:/nowhere.sock"], UnavailableError, "no answer from unix:/nowhere.sock"),
        (["list", "--url", "http://127.0.0.1:1"], UnavailableError, "no answer"),
        (["list", "--url", "127.0.0.1:1"], InvalidRequestError, "127.0.0.1:1 is no address: write http(s)://host:port"),
        (["list", "--url", "http://[::1"], InvalidRequestError, "http://[::1 is no address"),
        (["list", "--user", " alice"], InvalidRequestError, "no blank at an end"),
    ],
)
async def test_what_goes_wrong_is_one_clear_message(
    sidecar: Path, arguments: list[str], kind: type[Exception], message: str
) -> None:
    defaults = {"--url": f"unix:{sidecar}/api.sock", "--user": "alice"}
    for option, value in defaults.items():
        if option not in arguments:
            arguments = [*arguments, option, value]
    result = await asyncio.to_thread(CliRunner().invoke, memory_app, arguments)
    assert type(result.exception) is kind
    assert message in str(result.exception)


@pytest.mark.parametrize("arguments", [["list"], ["get", "x"], ["search", "x"], ["add", "x"], ["forget", "x"]])
async def test_json_of_another_server_is_no_answer(arguments: list[str]) -> None:
    """An LLM server behind a mistyped address may answer any path with JSON."""
    server = await serve_http(StandInLlm().app, "127.0.0.1:0")
    connection = ["--url", f"http://127.0.0.1:{server.port}", "--user", "alice"]
    result = await asyncio.to_thread(CliRunner().invoke, memory_app, [*arguments, *connection])
    await server.stop()
    assert "does not answer like the memory API" in str(result.exception)


async def test_forgetting_everything_through_envoy_needs_the_users_name(sidecar: Path) -> None:
    """The key alone does not say whose memories go."""
    arguments = ["forget-all", "--yes", "--api-key", "k", "--url", f"unix:{sidecar}/api.sock"]
    result = await asyncio.to_thread(CliRunner().invoke, memory_app, arguments)
    assert "--user" in str(result.exception)
