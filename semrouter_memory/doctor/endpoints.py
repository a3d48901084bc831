"""What the configuration names, asked whether it is there. The only part of doctor that connects to anything.

Strategy: a table of probes, all under way at once, each bounded by itself, so that ten dead addresses take as long as one.
A probe reads and changes nothing; what it raises becomes a finding, and no answer's text is shown.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import grpc
import grpc.aio
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.config import ExternalModel, secret
from semrouter_memory.doctor.address import Address, of_setting
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import API_PATH, endpoints_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store import schema
from semrouter_memory.store.location import Server, locate

TIMEOUT_SECONDS = 3.0

_OFFLINE = "; --offline skips this where doctor runs elsewhere"
_LOCAL = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


class _AwayError(Exception):
    """Nobody answers, or not what was expected; the text is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One thing to be asked.

    Attributes:
        what: who should answer.
        where: the setting or the place in the YAML that names it.
        fix: what to do when nobody does.
    """

    what: str
    where: str
    ask: Callable[[], Awaitable[list[Finding]]]
    fix: str
    is_vital: bool = True


def probes(case: Case) -> list[Probe]:
    """What there is to ask."""
    return [*_sidecars(case), *_apis(case), *_operator(case), *_milvus(case), *_redis(case), *_models(case)]


async def ask(probe: Probe) -> list[Finding]:
    """The findings of one probe; never raises."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await probe.ask()
    except TimeoutError:
        problem = f"no answer within {TIMEOUT_SECONDS:g} s"
    except (_AwayError, ConfigurationError) as away:
        problem = str(away)
    except Exception as failure:  # noqa: BLE001 - a foreign client's errors are many, and their texts may quote secrets
        problem = type(failure).__name__
    make = error if probe.is_vital else warning
    return [make("unreachable", probe.where, f"{probe.what}: {problem}", probe.fix + _OFFLINE)]


def _sidecars(case: Case) -> Iterator[Probe]:
    targets = [found for cluster in case.memory_clusters.values() for found in endpoints_of(cluster)]
    own = case.listen
    for where, address in targets or ([("server.listen", own)] if own else []):
        yield Probe(
            what=f"the sidecar's gRPC port {address}",
            where=where,
            ask=lambda address=address, where=where: _health(address, where),  # type: ignore[misc]
            fix="start it: semrouter-memory serve --config FILE",
        )


async def _health(address: Address, where: str) -> list[Finding]:
    target = f"unix:{address.path}" if address.path else str(_connectable(address))
    async with grpc.aio.insecure_channel(target) as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS
            )
        except grpc.aio.AioRpcError as problem:
            if problem.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise _AwayError("something else answers there") from None
            raise _AwayError("nobody answers") from None
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        return [error("not-serving", where, f"the sidecar at {address} says that it does not serve", "see its log")]
    return []


def _apis(case: Case) -> Iterator[Probe]:
    names = {name for chain in case.chains for route in case.api_routes(chain) for name in route.clusters}
    targets = [found for name in sorted(names) for found in endpoints_of(case.clusters.get(name))]
    own = of_setting(case.config.management.listen)
    for where, address in targets or ([("management.listen", own)] if own else []):
        yield Probe(
            what=f"the management API at {address}",
            where=where,
            ask=lambda address=address: _api(case, address),  # type: ignore[misc]
            fix="start the sidecar, and let both name the same address",
        )


async def _api(case: Case, address: Address) -> list[Finding]:
    headers = {case.config.server.secret_header: case.secret} if case.secret else {}
    answer = await _get(address, f"{API_PATH}/openapi.json", headers)
    if answer.status_code == HTTPStatus.OK and '"openapi"' in answer.text:
        return []
    raise _AwayError(f"answers {answer.status_code}, which the management API does not")


def _operator(case: Case) -> Iterator[Probe]:
    listen = case.config.management.operator_listen
    address = of_setting(listen) if listen is not None else None
    if address is not None:
        yield Probe(
            what=f"the operator's port {address}",
            where="management.operator_listen",
            ask=lambda: _ready(address),
            fix="start the sidecar",
            is_vital=False,
        )


async def _ready(address: Address) -> list[Finding]:
    answer = await _get(address, "/readyz", {})
    try:
        state = answer.json()
    except ValueError:
        raise _AwayError("something else answers there") from None
    if isinstance(state, dict) and state.get("store") == "unavailable":
        return [
            warning(
                "store-away", "memory.milvus", "the sidecar says that its store is away", "see its log for the reason"
            )
        ]
    return []


def _milvus(case: Case) -> Iterator[Probe]:
    memory = case.config.memory
    try:
        location = locate(memory.milvus, memory.directory)
    except ConfigurationError:
        return
    if isinstance(location, Server):
        yield Probe(
            what="Milvus",
            where="memory.milvus",
            ask=lambda: _collection(case, location.uri),
            fix="start it, or mend memory.milvus.address, .uri or .token",
        )


async def _collection(case: Case, uri: str) -> list[Finding]:
    import pymilvus  # noqa: PLC0415 - takes a second to load

    config = case.config.memory.milvus
    token = secret(config.token, config.token_file) or ""
    client: Any = pymilvus.AsyncMilvusClient(uri, token=token, dedicated=True, timeout=TIMEOUT_SECONDS)
    try:
        names = await client.list_collections(retry_times=0)
        description = await client.describe_collection(config.collection) if config.collection in names else None
    except (grpc.RpcError, pymilvus.MilvusException):
        raise _AwayError("nobody answers, or it refuses us") from None
    finally:
        await client.close()
    return [] if description is None else list(_dimension(case, description))


def _dimension(case: Case, description: dict[str, Any]) -> Iterator[Finding]:
    config = case.config.memory.milvus
    found = [field["params"].get("dim") for field in description["fields"] if field["name"] == schema.EMBEDDING.name]
    if not found:
        yield error(
            "collection-foreign",
            "memory.milvus.collection",
            f"the collection {config.collection!r} was not made by this service",
            "set it to another name",
        )
    elif int(found[0]) != config.dimension:
        yield error(
            "dimension-mismatch",
            "memory.milvus.dimension",
            f"the collection {config.collection!r} holds vectors of {found[0]} dimensions, the settings say"
            f" {config.dimension}",
            "go back to the model it was made with, or name a new collection, start, and copy the memories with"
            " `semrouter-memory memory reembed`",
        )


def _redis(case: Case) -> Iterator[Probe]:
    if case.config.memory.redis.url is not None:
        yield Probe(
            what="Redis",
            where="memory.redis.url",
            ask=lambda: _ping(case),
            fix="start it, or mend memory.redis.url and its password",
        )


async def _ping(case: Case) -> list[Finding]:
    from redis.asyncio import Redis  # noqa: PLC0415
    from redis.exceptions import RedisError, ResponseError  # noqa: PLC0415

    config = case.config.memory.redis
    try:
        client: Any = Redis.from_url(
            config.url or "",
            username=config.username,
            password=secret(config.password, config.password_file),
            protocol=2,
        )
    except ValueError:
        raise _AwayError("the URL is none of Redis's (redis://host:port/db, rediss:// or unix://path)") from None
    try:
        await client.ping()
        policy = (await client.config_get("maxmemory-policy")).get("maxmemory-policy", "noeviction")
    except ResponseError:
        policy = "noeviction"  # managed servers do not tell
    except (RedisError, OSError):
        raise _AwayError("nobody answers, or it refuses us") from None
    finally:
        await client.aclose()
    if policy in {"noeviction", b"noeviction"}:
        return []
    return [
        warning(
            "redis-evicts",
            "memory.redis.url",
            "its maxmemory-policy lets it drop keys when it is full, and each is a turn that was accepted",
            "maxmemory-policy noeviction",
        )
    ]


def _models(case: Case) -> Iterator[Probe]:
    for index, model in enumerate(case.config.external_models):
        yield Probe(
            what=f"the model for {model.model_role}",
            where=f"external_models[{index}].llm_endpoint",
            ask=lambda model=model, index=index: _list_models(model, index),  # type: ignore[misc]
            fix="start its server, or mend its address",
        )


async def _list_models(model: ExternalModel, index: int) -> list[Finding]:
    where = f"external_models[{index}]"
    try:
        key = model.api_key
    except ConfigurationError:
        key = None  # said already
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
            answer = await client.get(f"{model.llm_endpoint.url.rstrip('/')}/models", headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        raise _AwayError("nobody answers") from None
    if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return [
            error(
                "model-refuses", where, f"its server answers {answer.status_code}", "mend api_key_env or api_key_file"
            )
        ]
    names = _names_in(answer)
    if names and model.llm_model_name not in names:
        return [
            error(
                "model-unknown",
                f"{where}.llm_model_name",
                f"its server has no model {model.llm_model_name!r}",
                f"one of {', '.join(sorted(names)[:5])}",
            )
        ]
    return []


def _names_in(answer: httpx.Response) -> set[str]:
    """The models that a server lists; none when it lists none."""
    if answer.status_code != HTTPStatus.OK:
        return set()
    try:
        entries = json.loads(answer.content)["data"]
        return {str(entry["id"]) for entry in entries}
    except (ValueError, KeyError, TypeError):
        return set()


async def _get(address: Address, path: str, headers: dict[str, str]) -> httpx.Response:
    transport = httpx.AsyncHTTPTransport(uds=address.path) if address.path else None
    base = "http://localhost" if address.path else f"http://{_connectable(address)}"
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url=base, timeout=TIMEOUT_SECONDS, trust_env=False
        ) as client:
            return await client.get(path, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        raise _AwayError("nobody answers") from None


def _connectable(address: Address) -> Address:
    return Address(host=_LOCAL.get(address.host, address.host), port=address.port)
