"""The servers that the configuration names, asked whether they answer. The only part of doctor that connects to anything.

Strategy: a table of probes, all under way at once, each bounded by itself, so that ten dead addresses take as long as one.
A probe reads and changes nothing. Its exceptions become findings, and no answer's text is shown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import grpc
import grpc.aio
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.config import ExternalModel, secret
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.gateway import API_PATH, Address, endpoints_of, of_setting
from semrouter_memory.doctor.node import Node
from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.stack.llm_probe import models_in
from semrouter_memory.store import schema
from semrouter_memory.store.location import Server

TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Probe:
    """One server to be asked.

    Attributes:
        server: its name; also that of the text when it does not answer.
        where: the setting or the place in the YAML that names it.
        detail: its address or its task, where there are several.
    """

    server: str
    where: Node | str
    ask: Callable[[], Awaitable[list[Finding]]]
    detail: object = ""


def probes(context: CheckContext) -> Iterator[Probe]:
    server, management, memory = context.config.server, context.config.management, context.config.memory
    for where, address in _targets(context.memory_clusters, "server.listen", server.listen):
        yield Probe("sidecar", where, partial(_health, address, where), address)
    for where, address in _targets(context.api_clusters, "management.listen", management.listen):
        yield Probe("management API", where, partial(_api, context, address), address)
    for where, address in _targets([], "management.operator_listen", management.operator_listen or ""):
        yield Probe("operator's port", where, partial(_ready, address), address)
    if isinstance(location := context.store, Server):
        yield Probe("Milvus", "memory.milvus", partial(_collection, context, location.uri))
    if memory.redis.url is not None:
        yield Probe("Redis", "memory.redis.url", partial(_redis, context))
    for index, model in enumerate(context.config.external_models):
        where = f"external_models[{index}]"
        yield Probe("model", f"{where}.llm_endpoint", partial(_list_models, model, where), model.model_role)


async def ask(probe: Probe) -> list[Finding]:
    """The findings of one probe; never raises."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await probe.ask()
    except TimeoutError:
        problem = f"no answer within {TIMEOUT_SECONDS:g} s"
    except (grpc.RpcError, httpx.HTTPError, httpx.InvalidURL, OSError):
        problem = "no server answers"
    except (UnavailableError, ConfigurationError) as failure:
        problem = str(failure)
    except Exception as failure:  # noqa: BLE001 - a foreign client's errors are many, and their texts may quote secrets
        problem = type(failure).__name__
    return [found(f"unreachable/{probe.server}", probe.where, problem=problem, detail=probe.detail)]


def _targets(clusters: list[Node], setting: str, listen: str) -> list[tuple[Node | str, Address]]:
    """The endpoints of these clusters; where there are none, the setting's own address."""
    own = of_setting(listen)
    endpoints: list[tuple[Node | str, Address]] = [each for cluster in clusters for each in endpoints_of(cluster)]
    return endpoints or ([(setting, own)] if own is not None else [])


async def _health(address: Address, where: Node | str) -> list[Finding]:
    async with grpc.aio.insecure_channel(str(address.connectable)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
        except grpc.aio.AioRpcError as problem:
            if problem.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise UnavailableError("another server answers there", service=Service.SERVER) from None
            raise
    serving = answer.status == health_pb2.HealthCheckResponse.SERVING
    return [] if serving else [found("not-serving", where, address=address)]


async def _api(context: CheckContext, address: Address) -> list[Finding]:
    headers = {context.config.server.secret_header: context.secret} if context.secret else {}
    answer = await _get(address, f"{API_PATH}/openapi.json", headers)
    if answer.status_code == HTTPStatus.OK and '"openapi"' in answer.text:
        return []
    raise UnavailableError(f"answers {answer.status_code}, which the management API does not", service=Service.SERVER)


async def _ready(address: Address) -> list[Finding]:
    try:
        state = (await _get(address, "/readyz", {})).json()
    except ValueError:
        raise UnavailableError("another server answers there", service=Service.SERVER) from None
    unavailable = isinstance(state, dict) and state.get("store") == "unavailable"
    return [found("store-unavailable", "memory.milvus")] if unavailable else []


async def _get(address: Address, path: str, headers: dict[str, str]) -> httpx.Response:
    transport = httpx.AsyncHTTPTransport(uds=address.path) if address.path else None
    base = "http://localhost" if address.path else f"http://{address.connectable}"
    async with httpx.AsyncClient(
        transport=transport, base_url=base, timeout=TIMEOUT_SECONDS, trust_env=False
    ) as client:
        return await client.get(path, headers=headers)


async def _collection(context: CheckContext, uri: str) -> list[Finding]:
    import pymilvus  # noqa: PLC0415 - takes a second to load

    config = context.config.memory.milvus
    token = secret(config.token, config.token_file) or ""
    client: Any = pymilvus.AsyncMilvusClient(uri, token=token, dedicated=True, timeout=TIMEOUT_SECONDS)
    try:
        if config.collection not in await client.list_collections(retry_times=0):
            return []
        fields = (await client.describe_collection(config.collection))["fields"]
    except (grpc.RpcError, pymilvus.MilvusException):
        raise UnavailableError("no server answers, or it refuses the sidecar", service=Service.SERVER) from None
    finally:
        await client.close()
    name = repr(config.collection)
    held = [field["params"].get("dim") for field in fields if field["name"] == schema.EMBEDDING.name]
    if not held:
        return [found("collection-foreign", "memory.milvus.collection", collection=name)]
    if int(held[0]) == config.dimension:
        return []
    texts = {"collection": name, "held": held[0], "configured": config.dimension}
    return [found("dimension-mismatch/collection", "memory.milvus.dimension", **texts)]


async def _redis(context: CheckContext) -> list[Finding]:
    from semrouter_memory.databases.redis_connection import RedisConnection  # noqa: PLC0415 - loads Redis' library

    connection = RedisConnection(context.config.memory.redis)
    codes: list[str] = []
    try:
        server = await connection.execute("INFO", "server")
        if server.get("redis_mode") == "cluster":
            codes.append("redis-cluster")
        with suppress(UnavailableError):  # managed servers do not tell
            if b"noeviction" not in await connection.execute("CONFIG", "GET", "maxmemory-policy"):
                codes.append("redis-evicts")
    finally:
        await connection.aclose()
    return [found(code, "memory.redis.url") for code in codes]


async def _list_models(model: ExternalModel, where: str) -> list[Finding]:
    try:
        key = model.api_key
    except ConfigurationError:
        key = None  # the checks of the settings report that
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        answer = await client.get(f"{model.llm_endpoint.url.rstrip('/')}/models", headers=headers)
    if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return [found("model-refuses", where, status=answer.status_code)]
    names = models_in(answer) or []
    if not names or model.llm_model_name in names:
        return []
    listed = ", ".join(sorted(names)[:5])
    return [found("model-unknown", f"{where}.llm_model_name", model=repr(model.llm_model_name), models=listed)]
