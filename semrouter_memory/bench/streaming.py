"""The section `streams`: what a streamed answer's tokens go through, against Envoy alone."""

from collections import defaultdict

from semrouter_memory.bench import accounting
from semrouter_memory.bench.bodies import http_request, question_body
from semrouter_memory.bench.client import Streamed, stream
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import StreamFigures, Streams, Times
from semrouter_memory.bench.installation import ALONE, NOOP, PRODUCT
from semrouter_memory.bench.upstream import TOKEN_PAUSE_SECONDS
from semrouter_memory.bench.workload import Asker

_CHAINS = (ALONE, NOOP, PRODUCT)
_REQUESTS_A_STREAM = 10
_USER = "main"


async def streams(bench: Bench) -> Streams:
    """Measure."""
    rounds = max(bench.amount.requests // _REQUESTS_A_STREAM, 3)
    users = {_USER: bench.amount.memories}
    data = bench.directory / "streams" / "data"
    await bench.seed(data, users)
    read: dict[str, list[Streamed]] = defaultdict(list)
    asker = Asker()
    async with bench.installation("streams", data, users) as on:
        with bench.progress("streamed answers, token by token", rounds) as done:
            for number in range(-1, rounds):
                for chain in _CHAINS if number % 2 else reversed(_CHAINS):
                    (question,) = asker.take(1)
                    answer = await stream(on.ports[chain], http_request(_USER, question_body(question, stream=True)))
                    await accounting.quiet(on.service(chain))
                    # The first of each makes connections and brings the memories to hand.
                    if number >= 0:
                        read[chain].append(answer)
                done(number >= 0)
    return Streams(pause_ms=TOKEN_PAUSE_SECONDS * 1000, chains={chain: _figures(read[chain]) for chain in _CHAINS})


def _figures(answers: list[Streamed]) -> StreamFigures:
    return StreamFigures(
        first_token=Times.of([each.first_token for each in answers]),
        between=Times.of([ms for each in answers for ms in each.between]),
        on_the_way=Times.of([ms for each in answers for ms in each.on_the_way]),
    )
