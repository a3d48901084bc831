"""The sections `user` and `bodies`: the same requests for users with more and more memories, and with larger bodies."""

from functools import partial

from semrouter_memory.bench.bodies import long_body
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Bodies, UserSizes
from semrouter_memory.bench.installation import ALONE, NOOP, PRODUCT
from semrouter_memory.bench.rounds import PAUSE_SECONDS, Path, Rounds

MEMORIES = (10, 100, 1_000, 5_000)
BYTES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
_ROUNDS, _TURN = 4, 15
_AWAY = 3
_LARGE, _LARGE_TURN = 1_000_000, 6


async def user_sizes(bench: Bench) -> UserSizes:
    """Measure users of several sizes in one store."""
    asking = {size: f"with-{size}" for size in MEMORIES}
    away = {size: [f"away-with-{size}-{number}" for number in range(_AWAY)] for size in MEMORIES}
    users = {user: size for size in MEMORIES for user in (asking[size], *away[size])}
    data = bench.directory / "user" / "data"
    await bench.seed(data, users)
    async with bench.installation("user", data, users) as on, bench.parts(data) as parts:
        with bench.progress("requests of users with few and with many memories", len(MEMORIES) * _ROUNDS) as done:
            measuring = Rounds(on, parts)
            paths = {}
            for size in MEMORIES:
                await measuring.activate([asking[size]], chains=(NOOP, PRODUCT))
                paths[size] = await measuring.path(
                    Path(
                        chains=(NOOP, PRODUCT),
                        user=asking[size],
                        rounds=_ROUNDS,
                        turn=_TURN,
                        away=away[size],
                        pause_seconds=PAUSE_SECONDS,
                    ),
                    done=done,
                )
    return UserSizes(paths=paths)


async def bodies(bench: Bench) -> Bodies:
    """Measure one user's requests with conversations of several lengths."""
    users = {"main": bench.amount.memories}
    data = bench.directory / "bodies" / "data"
    await bench.seed(data, users)
    chains = (ALONE, NOOP, PRODUCT)
    async with bench.installation("bodies", data, users) as on, bench.parts(data) as parts:
        with bench.progress("requests with small and large bodies", len(BYTES) * _ROUNDS) as done:
            measuring = Rounds(on, parts)
            await measuring.activate(["main"], chains=chains)
            paths = {
                size: await measuring.path(
                    Path(
                        chains=chains,
                        user="main",
                        rounds=_ROUNDS,
                        turn=_TURN if size < _LARGE else _LARGE_TURN,
                        body=partial(long_body, size=size),
                        pause_seconds=PAUSE_SECONDS,
                    ),
                    done=done,
                )
                for size in BYTES
            }
    return Bodies(paths=paths)
