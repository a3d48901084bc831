"""Query parameters: what a route declares is accepted, as often as it declares it; everything else is refused."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import httpx
import pytest

from semrouter_memory.manage.operator_routes import OperatorContext
from semrouter_memory.replay import recordings
from tests.memory_service import access_to, operator_api


class Recordings(recordings.Recordings):
    """Remembers what was asked for, and records nothing."""

    def __init__(self) -> None:
        self.asked: list[Iterable[str]] = []

    async def live(self, seconds: float, *, headers: Iterable[str] = (), **options: Any) -> AsyncIterator[bytes]:
        self.asked.append(headers)
        yield b""


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("redact=x-one&redact=x-two&seconds=1", ""),
        ("seconds=1&seconds=2", "seconds"),
        ("second=1", "second"),
        ("user_id=alice", "user_id"),
    ],
)
async def test_a_route_takes_what_it_declares_and_lists_alone_are_repeated(query: str, refused: str) -> None:
    asking = Recordings()
    nothing = cast(Any, None)
    app = operator_api(
        access_to(nothing),
        context=OperatorContext(
            turn_log=nothing,
            deletion=nothing,
            backup=nothing,
            collections=nothing,
            recordings=asking,
        ),
    )
    headers = {"authorization": "Bearer operator-token"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=headers) as client:
        answer = await client.post(f"/v1/recording?{query}")
    if refused:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, refused)
        assert asking.asked == []
    else:
        assert answer.status_code == 200
        assert asking.asked == [["x-one", "x-two"]]
