"""The section `requests`: what a request costs through each chain, alone and among others, for active and cold users."""

from semrouter_memory.bench import accounting
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Headline
from semrouter_memory.bench.installation import ALONE, NOOP, PRODUCT, UNLEARNED, Installation
from semrouter_memory.bench.rounds import PAUSE_SECONDS, TURN, Path, Rounds

CONNECTIONS = 32
_BUSY_MEMORIES = 200
_LEAST_AWAY, _MOST_AWAY = 6, 20
_LEAST_ROUNDS = 2
_REQUESTS_A_THROUGHPUT_ROUND = 80
"""Of those one after the other: so many of them for one round of many connections."""
_CHAINS = (ALONE, NOOP, PRODUCT, UNLEARNED)
_PACED = (ALONE, NOOP, PRODUCT)


async def headline(bench: Bench) -> Headline:
    """Measure."""
    amount = bench.amount
    turn = min(TURN, amount.requests)
    rounds = max(amount.requests // turn, _LEAST_ROUNDS)
    away = [f"away-{number}" for number in range(min(max(rounds, _LEAST_AWAY), _MOST_AWAY))]
    busy = [f"busy-{number}" for number in range(CONNECTIONS)]
    users = {
        "main": amount.memories,
        **dict.fromkeys(busy, _BUSY_MEMORIES),
        **dict.fromkeys(away, amount.memories),
    }
    data = bench.directory / "requests" / "data"
    await bench.seed(data, users)
    routes = {UNLEARNED: {"x-memory-auto-store": "false"}}
    async with bench.installation("requests", data, users, routes=routes) as on, bench.parts(data) as parts:
        together = max(amount.requests // _REQUESTS_A_THROUGHPUT_ROUND, _LEAST_ROUNDS)
        with bench.progress(
            "requests through Envoy, one after the other and many at a time", rounds + max(rounds // 2, 2) + together
        ) as done:
            measuring = Rounds(on, parts)
            await measuring.activate(["main"], chains=_CHAINS)
            alone = await measuring.path(
                Path(chains=_CHAINS, user="main", rounds=rounds, turn=turn, away=away), done=done
            )
            steps = {chain: counts.figures() for chain, counts in measuring.steps.items()}
            paced = await measuring.path(
                Path(chains=_PACED, user="main", rounds=max(rounds // 2, 2), turn=turn, pause_seconds=PAUSE_SECONDS),
                done=done,
            )
            await measuring.activate(busy, chains=_CHAINS)
            many = await measuring.throughput(
                busy, _CHAINS, rounds=together, per_connection=10 if amount.quick else 20, done=done
            )
        return Headline(
            memories=amount.memories,
            stored=sum(users.values()),
            alone=alone,
            paced=paced,
            pause_ms=PAUSE_SECONDS * 1000,
            many=many,
            steps=steps,
            resident_bytes=resident(on),
        )


def resident(on: Installation) -> dict[str, int]:
    """Memory of the processes, each kind of them together."""
    sidecars = on.service(PRODUCT)
    stores = [child for pid in sidecars for child in accounting.children(pid)]
    both = accounting.resident_bytes(sidecars)
    taken = {
        "no-op service": accounting.resident_bytes(on.service(NOOP)),
        "Envoy": accounting.resident_bytes(on.around[:1]),
    }
    store = accounting.resident_bytes(stores)
    return {"sidecar": both - store, **({"Milvus Lite": store} if stores else {}), **taken}
