"""What memory did, as the operator and the client see it: response headers, Envoy's access log, and traces.

Over the shipped YAML with the real Envoy; what stands there in comments (access log, tracer) is taken from the comments.
"""

import functools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from fastapi import FastAPI, Response

from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.stack.envoy import SHIPPED
from semrouter_memory.stack.loopback import LOOPBACK, free_port
from tests.otlp_collector import Collector, Received, collecting

from .client import CHAT, asking, told
from .conftest import ALICE, Installation, eventually, installed
from .extraction_llm import ExtractionLlm, extracting

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY = "Zanzibar"
TOLD = f"My budget for the {CANARY} trip is $10,000."
ASKED = f"What's my budget for the {CANARY} trip?"
HEADERS = ("x-memory-used", "x-memory-reason", "x-memory-ids")
CLIENTS_TRACE, CLIENTS_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CHAINS = ("two-filter.yaml", "single-filter.yaml")


def commented(chain: str, key: str) -> Any:
    """What the shipped file has in a comment under that key of the HTTP connection manager."""
    indent = " " * 10 + "# "
    lines = (SHIPPED / chain).read_text(encoding="utf-8").splitlines()
    start = lines.index(f"{indent}{key}:")
    block = [lines[start]]
    for line in lines[start + 1 :]:
        if not line.startswith((f"{indent} ", f"{indent}-")):
            break
        block.append(line)
    return yaml.safe_load("\n".join(line.removeprefix(indent) for line in block))


def manager(config: dict[str, Any]) -> dict[str, Any]:
    listener = config["static_resources"]["listeners"][0]
    found: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def logging(chain: str, config: dict[str, Any]) -> None:
    """Switch the documented access log on."""
    manager(config).update(commented(chain, "access_log"))


def tracing(chain: str, config: dict[str, Any], port: int) -> None:
    """Switch the documented tracer on."""
    manager(config).update(commented(chain, "tracing"))
    address = {"socket_address": {"address": LOOPBACK, "port_value": port}}
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    config["static_resources"]["clusters"].append(
        {
            "name": "otlp_collector",
            "type": "STATIC",
            "typed_extension_protocol_options": {
                options: {
                    "@type": f"type.googleapis.com/{options}",
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            },
            "load_assignment": {
                "cluster_name": "otlp_collector",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
            },
        }
    )


async def post(on: Installation, text: str, /, *, path: str = CHAT, key: str = ALICE, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with on.http(key, headers={"content-type": "application/json", **names}) as http:
        return (await http.post(path, content=asking(CHAT, text))).raise_for_status()


def shown(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in HEADERS if name in answer.headers}


async def ids(on: Installation) -> list[str]:
    async with on.http() as http:
        return [memory["id"] for memory in (await http.get("/v1/memory")).json()["data"]]


# -- dynamic metadata --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one request: to the client, and by the line of the access log with that request id."""

    headers: dict[str, str]
    request_id: str


@dataclass(frozen=True, slots=True)
class Logged:
    """A chain with the documented access log, after some requests of alice, whose budget is known."""

    on: Installation
    memory_id: str
    told: dict[str, Told]

    async def line(self, case: str) -> dict[str, Any]:
        """Envoy writes its lines every ten seconds."""
        found: list[dict[str, Any]] = []

        async def written() -> bool:
            text = self.on.stack.envoy.log.read_text(encoding="utf-8")
            lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            found[:] = [line for line in lines if line.get("request_id") == self.told[case].request_id]
            return bool(found)

        await eventually(written, "no line in the access log", seconds=30)
        return found[0]


USED = "what is known is used"
FORGED = {"x_memory_used": "99", "x_memory_reason": "injected", "x_memory_ids": "mem_forged"}
ASKING: dict[str, tuple[str, str, dict[str, str]]] = {
    USED: (CHAT, ASKED, {}),
    "below_threshold": (CHAT, "How does a transistor work?", {}),
    "greeting": (CHAT, "Hello!", FORGED),
    "opted_out": (CHAT, ASKED, {"x_memory_opt_out": "true"}),
    "encoded_body": (CHAT, ASKED, {"content_encoding": "br"}),
    "not ours": ("/v1/files", ASKED, {}),
}
"""Path, text and headers, by what comes of it. A client that sends headers of ours has no say in it."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def logged(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[dict[str, Logged]]:
    """Both chains at once, so that their logs are waited for once."""
    async with AsyncExitStack() as stack:
        result = {}
        for chain in CHAINS:
            directory, edit = tmp_path_factory.mktemp("logged"), functools.partial(logging, chain)
            one = installed(directory, model_directory, chain=chain, edit_envoy=edit)
            result[chain] = await _used(await stack.enter_async_context(one))
        yield result


async def _used(on: Installation) -> Logged:
    await post(on, TOLD)
    await on.remembers("$10,000")
    (known,) = await ids(on)
    told = {}
    for case, (path, text, headers) in ASKING.items():
        answer = await post(on, text, path=path, **headers)
        told[case] = Told(shown(answer), on.llm.last.headers["x-request-id"])
    return Logged(on, known, told)


@pytest.mark.parametrize("chain", CHAINS)
async def test_client_and_access_log_learn_which_memories_were_used(logged: dict[str, Logged], chain: str) -> None:
    this = logged[chain]
    assert this.told[USED].headers == {
        "x-memory-used": "1",
        "x-memory-reason": "injected",
        "x-memory-ids": this.memory_id,
    }
    line = await this.line(USED)
    assert (line["memories_used"], line["memory_reason"], line["memory_ids"]) == (1, "injected", this.memory_id)
    assert 0.6 <= float(line["memory_scores"]) <= 1
    assert line["memory_tokens"] > 0
    assert line["memory_duration_ms"] > 0
    assert line["memory_compressed_turns"] == 0
    assert CANARY not in json.dumps(line)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("reason", [case for case in ASKING if "_" in case or case == "greeting"])
async def test_client_and_access_log_learn_why_none_were_used(
    logged: dict[str, Logged], chain: str, reason: str
) -> None:
    """Whether that is known at the headers or found in the body; and whatever headers of ours the client sent."""
    assert logged[chain].told[reason].headers == {"x-memory-used": "0", "x-memory-reason": reason}
    line = await logged[chain].line(reason)
    assert (line["memories_used"], line["memory_reason"], line["memory_ids"]) == (0, reason, None)


@pytest.mark.parametrize("chain", CHAINS)
async def test_a_path_without_memory_says_nothing_of_it(logged: dict[str, Logged], chain: str) -> None:
    assert logged[chain].told["not ours"].headers == {}
    assert (await logged[chain].line("not ours"))["memory_reason"] is None


async def test_an_llm_server_that_sends_such_headers_is_not_believed(tmp_path: Path, model_directory: Path) -> None:
    app = FastAPI(openapi_url=None)

    async def complete() -> Response:
        return Response("{}", headers={"x-memory-used": "7", "x-memory-ids": "mem_forged", "x-other": "kept"})

    app.add_api_route(CHAT, complete, methods=["POST"])
    address = f"{LOOPBACK}:{free_port()}"
    server = await serve_http(app, address)
    try:
        async with installed(tmp_path, model_directory, llm=f"http://{address}/v1") as on:
            answer = await post(on, "Hello!")
            assert shown(answer) == {"x-memory-used": "0", "x-memory-reason": "greeting"}
            await on.stack.sidecar.stop()
            answer = await post(on, "Hello!")
            assert shown(answer) == {}
            assert answer.headers["x-other"] == "kept"
    finally:
        await server.stop()


@pytest.mark.parametrize("chain", CHAINS)
async def test_without_the_sidecar_the_request_passes_without_these_headers(
    logged: dict[str, Logged], chain: str
) -> None:
    """It stands last, because the sidecar stays away."""
    on = logged[chain].on
    await on.stack.sidecar.stop()
    answer = await post(on, ASKED)
    assert shown(answer) == {}


# -- traces ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def extractor() -> AsyncIterator[ExtractionLlm]:
    model = ExtractionLlm()
    async with model.listening():
        yield model


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, collector: Collector, extractor: ExtractionLlm
) -> AsyncIterator[Installation]:
    """Envoy and the sidecar both trace to one collector; a model extracts."""

    def edit(config: dict[str, Any]) -> None:
        tracing("two-filter.yaml", config, collector.port)

    async with installed(
        tmp_path_factory.mktemp("traced"),
        model_directory,
        edit_envoy=edit,
        sidecar_config=to(collector.port, **extracting(extractor)),
        environment={"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"},
    ) as on:
        yield on


def to(port: int, **config: Any) -> dict[str, Any]:
    tracing = {"enabled": True, "endpoint": f"http://{LOOPBACK}:{port}", "protocol": "grpc"}
    return {**config, "telemetry": {**config.get("telemetry", {}), "tracing": tracing}}


async def arrived(collector: Collector, name: str, trace: str = "") -> Received:
    """The span of that name (in that trace); the last one, where there are several."""

    def found() -> list[Received]:
        return [span for span in collector.named(name) if trace in ("", span.trace)]

    async def there() -> bool:
        return bool(found())

    await eventually(there, f"no span {name!r}; there are {sorted({span.name for span in collector.spans})}")
    return found()[-1]


async def test_an_exchange_is_part_of_the_clients_trace_below_envoys_spans(
    traced: Installation, collector: Collector, extractor: ExtractionLlm
) -> None:
    extractor.works()
    await post(traced, TOLD)
    await traced.remembers("$10,000")
    await post(traced, ASKED, traceparent=f"00-{CLIENTS_TRACE}-{CLIENTS_SPAN}-01")
    for name in ("memory recall", "memory retain"):
        span = await arrived(collector, name, CLIENTS_TRACE)
        assert span.service == "semrouter-memory"

        async def known(parent: str = span.parent) -> bool:
            return collector.by_id(parent) is not None

        await eventually(known, f"the parent of {name!r} is nobody's span")
        parent = collector.by_id(span.parent)
        assert parent is not None
        assert (parent.service, parent.trace) == ("llm-gateway", CLIENTS_TRACE)


async def test_recall_shows_its_steps_and_what_came_of_them(traced: Installation, collector: Collector) -> None:
    recall = await arrived(collector, "memory recall", CLIENTS_TRACE)
    steps = collector.children(recall)
    assert {"decide", "query", "embed", "search", "score", "rank", "render"} <= {step.name for step in steps}
    for step in steps:
        assert recall.span.start_time_unix_nano <= step.span.start_time_unix_nano <= step.span.end_time_unix_nano
        assert step.span.end_time_unix_nano <= recall.span.end_time_unix_nano
    (known,) = await ids(traced)
    attributes = recall.attributes
    assert attributes["semrouter.memory.reason"] == "injected"
    assert attributes["semrouter.memory.ids"] == [known]
    assert attributes["gen_ai.operation.name"] == "search_memory"
    assert attributes["gen_ai.memory.record.count"] == 1
    assert attributes["gen_ai.request.model"] == "m"


async def test_an_extraction_is_linked_to_the_exchange_it_reads(
    traced: Installation, collector: Collector, extractor: ExtractionLlm
) -> None:
    await traced.forget_everything()
    extractor.works("User collects stamps")
    trace = "1af7651916cd43dd8448eb211c80319d"
    await post(traced, "Which albums suit the stamps that I collect?", traceparent=f"00-{trace}-{CLIENTS_SPAN}-01")
    await traced.remembers("stamps")
    retain = await arrived(collector, "memory retain", trace)

    async def linked() -> bool:
        return any(
            {link.span_id.hex() for link in span.span.links} == {retain.id}
            and any(child.name == "extract llm" for child in collector.children(span))
            for span in collector.named("memory extract")
        )

    await eventually(linked, "no extraction is linked to the exchange")
    call = (await arrived(collector, "chat extractor")).attributes
    assert call["gen_ai.operation.name"] == "chat"
    assert call["gen_ai.request.model"] == "extractor"
    assert call["server.address"] == LOOPBACK
    assert call["semrouter.memory.role"] == "memory_extraction"


async def test_a_model_that_fails_is_a_failed_span_without_what_it_said(
    traced: Installation, collector: Collector, extractor: ExtractionLlm
) -> None:
    extractor.status = 400
    seen = len(collector.named("chat extractor"))
    await post(traced, f"And what would one collect in {CANARY}?")

    async def failed() -> bool:
        return any(call.failed for call in collector.named("chat extractor")[seen:])

    await eventually(failed, "no failed span")
    extractor.works()
    call = next(call for call in collector.named("chat extractor")[seen:] if call.failed)
    # The plainest prompt is refused as well, so the model is left alone.
    assert call.attributes["error.type"] == "CircuitOpenError"
    assert call.span.status.message == ""


async def test_a_request_without_recall_says_why(traced: Installation, collector: Collector) -> None:
    trace = "2af7651916cd43dd8448eb211c80319e"
    await post(traced, ASKED, traceparent=f"00-{trace}-{CLIENTS_SPAN}-01", x_memory_opt_out="true")
    span = await arrived(collector, "memory bypass", trace)
    assert span.attributes == {"semrouter.memory.reason": "opted_out"}


async def test_no_span_of_the_sidecar_says_what_anybody_wrote(
    traced: Installation, collector: Collector, extractor: ExtractionLlm
) -> None:
    """Over everything that the tests before this one made, whatever the field."""
    await told(traced, CHAT, ASKED)
    own = [span.span.SerializeToString() for span in collector.spans if span.service == "semrouter-memory"]
    assert len(own) > 10
    for word in (CANARY, "budget", "$10,000", "stamps", "alice"):
        assert not any(word.encode() in span for span in own), word


async def test_a_trace_that_is_not_sampled_is_not_recorded(traced: Installation, collector: Collector) -> None:
    """The client's decision holds in Envoy, and Envoy's here."""
    trace, next_trace = "3af7651916cd43dd8448eb211c80319f", "4af7651916cd43dd8448eb211c80319f"
    await post(traced, ASKED, traceparent=f"00-{trace}-{CLIENTS_SPAN}-00")
    await post(traced, ASKED, traceparent=f"00-{next_trace}-{CLIENTS_SPAN}-01")
    await arrived(collector, "memory recall", next_trace)
    assert collector.of(trace) == []


async def test_without_a_collector_requests_pass_and_the_log_says_so_once(
    tmp_path: Path, model_directory: Path
) -> None:
    """Envoy itself does not trace here: the client's own header counts. The end is not held up either."""
    config = to(free_port())
    environment = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    async with installed(tmp_path, model_directory, sidecar_config=config, environment=environment) as on:
        for _ in range(5):
            answer = await post(on, TOLD, traceparent=f"00-{CLIENTS_TRACE}-{CLIENTS_SPAN}-01")
            assert answer.headers["x-memory-reason"] != "internal_error"
        await on.remembers("$10,000")

        async def said() -> bool:
            return "Traces cannot be exported" in on.stack.sidecar.log.read_text(encoding="utf-8")

        await eventually(said, "no word of the collector")
        for _ in range(5):
            await post(on, ASKED)
        assert await on.stack.sidecar.stop(timeout_seconds=10) == 0
        text = on.stack.sidecar.log.read_text(encoding="utf-8")
    assert text.count("Traces cannot be exported") == 1
    assert "opentelemetry" not in text
    assert CANARY not in text
