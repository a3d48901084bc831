"""The sections that are measured through Envoy: headline, throughput, streams, bodies and growth."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as Directory

from bench import accounting
from bench.client import Streamed, stream
from bench.context import Bench
from bench.figures import (
    ALONE,
    NOOP,
    PRODUCT,
    UNLEARNED,
    Bodies,
    Growth,
    GrowthPoint,
    Headline,
    StreamFigures,
    Streams,
    Throughput,
    Times,
    UserFigures,
)
from bench.installation import Installation
from bench.rounds import PAUSE_SECONDS, TURN, Path, Rounds
from bench.upstream import TOKEN_PAUSE_SECONDS
from bench.workload import Asker, http_request, long_body, question_body
from semrouter_memory.config import MilvusConfig

CONNECTIONS = 32
FEW_MEMORIES, MANY_MEMORIES = 10, 5_000
"""Of the users beside the one that the headline's goal is for."""
BODY_BYTES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
LITE, SERVER = "Milvus Lite", "Milvus server"

_ALL = (ALONE, NOOP, PRODUCT, UNLEARNED)
_CHAINS = (ALONE, NOOP, PRODUCT)
_PAIR = (NOOP, PRODUCT)
_UNLEARNED_ROUTE = {UNLEARNED: {"x-memory-auto-store": "false"}}

_LEAST_AWAY, _MOST_AWAY = 6, 20
_LEAST_ROUNDS = 2
_OTHERS_SHARE = 4
"""Users beside the main one get so many times fewer rounds."""
BUSY_MEMORIES = 200
_REQUESTS_A_THROUGHPUT_ROUND = 80
"""Of those one after the other: so many of them for one round of many connections."""
_REQUESTS_A_STREAM = 10

_FEW_ROUNDS, _FEW_TURN = 4, 15
_LARGE_BYTES, _LARGE_TURN = 1_000_000, 6

_GROWTH_MEMORIES = 50
"""Of every user: it is the store that grows, and with it the number of users."""
_GROWTH_ROUNDS = 5
_GROWTH_AWAY = 12


async def headline(bench: Bench) -> Headline:
    """What a request costs: of an active user with and without pauses, and of users who ask for the first time since the start."""
    amount = bench.amount
    turn = min(TURN, amount.requests)
    rounds = max(amount.requests // turn, _LEAST_ROUNDS)
    sizes = {amount.memories} if amount.quick else {FEW_MEMORIES, amount.memories, MANY_MEMORIES}
    rounds_of = {size: rounds if size == amount.memories else max(rounds // _OTHERS_SHARE, 2) for size in sorted(sizes)}
    away = [f"away-{number}" for number in range(min(max(rounds, _LEAST_AWAY), _MOST_AWAY))]
    users = {f"with-{size}": size for size in rounds_of} | dict.fromkeys(away, amount.memories)
    data = bench.directory / "headline" / "data"
    await bench.seed(data, users)
    async with bench.installation("headline", data, users, routes=_UNLEARNED_ROUTE) as on, bench.parts(data) as parts:
        measuring, figures = Rounds(on, parts), {}
        total = sum(each + max(each // 2, 2) for each in rounds_of.values())
        with bench.progress("requests through Envoy, one after the other", total) as done:
            for size, count in rounds_of.items():
                user, main = f"with-{size}", size == amount.memories
                await measuring.activate([user], chains=_ALL)
                back_to_back = Path(chains=_ALL, user=user, rounds=count, turn=turn, away=away if main else ())
                paced = Path(
                    chains=_CHAINS, user=user, rounds=max(count // 2, 2), turn=turn, pause_seconds=PAUSE_SECONDS
                )
                figures[size] = UserFigures(
                    back_to_back=await measuring.path(back_to_back, done=done),
                    paced=await measuring.path(paced, done=done),
                )
        return Headline(
            memories=amount.memories,
            stored=sum(users.values()),
            pause_ms=PAUSE_SECONDS * 1000,
            users=figures,
            steps={chain: counts.figures() for chain, counts in measuring.steps.items()},
            resident_bytes=resident(on),
        )


def resident(on: Installation) -> dict[str, int]:
    """Memory of the processes, by kind."""
    sidecar = on.service(PRODUCT)
    stores = [child for pid in sidecar for child in accounting.children(pid)]
    store = accounting.resident_bytes(stores)
    return {
        "sidecar": accounting.resident_bytes(sidecar) - store,
        **({LITE: store} if stores else {}),
        "no-op service": accounting.resident_bytes(on.service(NOOP)),
        "Envoy": accounting.resident_bytes((on.envoy.pid,)),
    }


async def throughput(bench: Bench) -> Throughput:
    """Many connections at a time, one user each, with and without `auto_store`."""
    amount = bench.amount
    rounds = max(amount.requests // _REQUESTS_A_THROUGHPUT_ROUND, _LEAST_ROUNDS)
    busy = [f"busy-{number}" for number in range(CONNECTIONS)]
    users = dict.fromkeys(busy, BUSY_MEMORIES)
    data = bench.directory / "throughput" / "data"
    await bench.seed(data, users)
    async with bench.installation("throughput", data, users, routes=_UNLEARNED_ROUTE) as on, bench.parts(data) as parts:
        with bench.progress(f"requests over {CONNECTIONS} connections", rounds) as done:
            measuring = Rounds(on, parts)
            await measuring.activate(busy, chains=_ALL)
            each = 10 if amount.quick else 20
            return await measuring.throughput(busy, _ALL, rounds=rounds, per_connection=each, done=done)


async def streams(bench: Bench) -> Streams:
    """Streamed answers, token by token."""
    rounds = max(bench.amount.requests // _REQUESTS_A_STREAM, 3)
    users = {"main": bench.amount.memories}
    data = bench.directory / "streams" / "data"
    await bench.seed(data, users)
    read: dict[str, list[Streamed]] = defaultdict(list)
    asker = Asker()
    async with bench.installation("streams", data, users) as on:
        with bench.progress("streamed answers, token by token", rounds) as done:
            for number in range(-1, rounds):
                for chain in _CHAINS if number % 2 else reversed(_CHAINS):
                    (question,) = asker.take(1)
                    answer = await stream(on.ports[chain], http_request("main", question_body(question, stream=True)))
                    await accounting.quiet(on.service(chain))
                    # The first of each makes connections and loads the user's memories.
                    if number >= 0:
                        read[chain].append(answer)
                done(number >= 0)
    return Streams(
        pause_ms=TOKEN_PAUSE_SECONDS * 1000, chains={chain: _stream_figures(read[chain]) for chain in _CHAINS}
    )


def _stream_figures(answers: list[Streamed]) -> StreamFigures:
    return StreamFigures(
        first_token=Times.of([each.first_token for each in answers]),
        between=Times.of([ms for each in answers for ms in each.between]),
        on_the_way=Times.of([ms for each in answers for ms in each.on_the_way]),
    )


async def bodies(bench: Bench) -> Bodies:
    """One user's requests with conversations of several lengths, with pauses."""
    users = {"main": bench.amount.memories}
    data = bench.directory / "bodies" / "data"
    await bench.seed(data, users)
    async with bench.installation("bodies", data, users) as on, bench.parts(data) as parts:
        with bench.progress("requests with small and large bodies", len(BODY_BYTES) * _FEW_ROUNDS) as done:
            measuring = Rounds(on, parts)
            await measuring.activate(["main"], chains=_CHAINS)
            paths = {
                size: await measuring.path(
                    Path(
                        chains=_CHAINS,
                        user="main",
                        rounds=_FEW_ROUNDS,
                        turn=_FEW_TURN if size < _LARGE_BYTES else _LARGE_TURN,
                        body=partial(long_body, size=size),
                        pause_seconds=PAUSE_SECONDS,
                    ),
                    done=done,
                )
                for size in BODY_BYTES
            }
    return Bodies(paths=paths)


@dataclass(frozen=True, slots=True)
class _Store:
    name: str
    data: Directory
    milvus: MilvusConfig | None


async def growth(bench: Bench) -> Growth:
    """The same requests while the store grows, on Milvus Lite and on a Milvus server."""
    points: list[GrowthPoint] = []
    if bench.amount.lite:
        points += await _grown(bench, _Store(LITE, bench.directory / "growth-lite" / "data", None), bench.amount.lite)
    if bench.amount.server:
        milvus = MilvusConfig(uri=await bench.milvus(), collection="growth")
        store = _Store(SERVER, bench.directory / "growth-server" / "data", milvus)
        points += await _grown(bench, store, bench.amount.server)
    return Growth(points=points)


async def _grown(bench: Bench, store: _Store, sizes: Sequence[int]) -> list[GrowthPoint]:
    points, users = [], list[str]()
    for size in sizes:
        new = [f"user-{number}" for number in range(len(users), max(size // _GROWTH_MEMORIES, 2))]
        settled = True
        await bench.seed(store.data, dict.fromkeys(new, _GROWTH_MEMORIES), store.milvus)
        if store.milvus is not None:
            settled = await bench.settled()
        users += new
        points.append(await _point(bench, store, new, users=len(users), settled=settled))
    return points


async def _point(bench: Bench, store: _Store, new: Sequence[str], *, users: int, settled: bool) -> GrowthPoint:
    main, *others = new
    away = others[:_GROWTH_AWAY]
    memory = {"milvus": {"uri": store.milvus.uri, "collection": store.milvus.collection}} if store.milvus else {}
    asking = dict.fromkeys([main, *away], _GROWTH_MEMORIES)
    memories = users * _GROWTH_MEMORIES
    async with (
        bench.installation(store.data.parent.name, store.data, asking, memory=memory) as on,
        bench.parts(store.data, store.milvus) as parts,
    ):
        with bench.progress(f"requests with {memories:,} memories on {store.name}", _GROWTH_ROUNDS) as done:
            measuring = Rounds(on, parts)
            await measuring.activate([main], chains=_PAIR)
            paced = Path(
                chains=_PAIR,
                user=main,
                rounds=_GROWTH_ROUNDS,
                turn=_FEW_TURN,
                away=away,
                pause_seconds=PAUSE_SECONDS,
            )
            path = await measuring.path(paced, done=done)
    return GrowthPoint(store=store.name, memories=memories, users=users, path=path, settled=settled)
