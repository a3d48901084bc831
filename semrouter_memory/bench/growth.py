"""The section `growth`: the same requests while the store grows, on Milvus Lite and on a Milvus server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as Directory

from semrouter_memory.bench import accounting
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Growth, GrowthPoint, PathFigures
from semrouter_memory.bench.headline import resident
from semrouter_memory.bench.installation import NOOP, PRODUCT
from semrouter_memory.bench.rounds import PAUSE_SECONDS, Path, Rounds
from semrouter_memory.config import MilvusConfig

MEMORIES_EACH = 50
"""Of every user: it is the store that grows, and with it the number of users."""
LITE, SERVER = "Milvus Lite", "Milvus server"
_ROUNDS, _TURN = 5, 15
_AWAY = 12
_SETTLED_SECONDS, _SETTLED_SHARE = 5.0, 0.3
"""A server that has nothing to do takes a tenth of a core; while it builds an index, all of them."""


@dataclass(frozen=True, slots=True)
class _Store:
    name: str
    data: Directory
    milvus: MilvusConfig | None


async def growth(bench: Bench) -> Growth:
    """Measure."""
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
        new = [f"user-{number}" for number in range(len(users), max(size // MEMORIES_EACH, 2))]
        started = time.monotonic()
        settled = True
        await bench.seed(store.data, dict.fromkeys(new, MEMORIES_EACH), store.milvus)
        if store.milvus is not None:
            bench.say("waiting until the server has settled")
            settled = await accounting.quiet(bench.milvus_pids, look_seconds=_SETTLED_SECONDS, share=_SETTLED_SHARE)
        seconds = time.monotonic() - started
        users += new
        path, taken = await _measured(bench, store, f"{len(users) * MEMORIES_EACH:,} memories on {store.name}", new)
        points.append(
            GrowthPoint(
                store=store.name,
                memories=len(users) * MEMORIES_EACH,
                users=len(users),
                path=path,
                resident_bytes=taken,
                loading_seconds=seconds,
                settled=settled,
            )
        )
    return points


async def _measured(bench: Bench, store: _Store, what: str, users: Sequence[str]) -> tuple[PathFigures, dict[str, int]]:
    main, *others = users
    away = others[: min(_AWAY, len(others))]
    memory = {"milvus": {"uri": store.milvus.uri, "collection": store.milvus.collection}} if store.milvus else {}
    asking = dict.fromkeys([main, *away], MEMORIES_EACH)
    name = store.data.parent.name
    async with (
        bench.installation(name, store.data, asking, memory=memory) as on,
        bench.parts(store.data, store.milvus) as parts,
    ):
        with bench.progress(f"requests with {what}", _ROUNDS) as done:
            measuring = Rounds(on, parts)
            await measuring.activate([main], chains=(NOOP, PRODUCT))
            path = await measuring.path(
                Path(
                    chains=(NOOP, PRODUCT),
                    user=main,
                    rounds=_ROUNDS,
                    turn=_TURN,
                    away=away,
                    pause_seconds=PAUSE_SECONDS,
                ),
                done=done,
            )
        return path, resident(on)
