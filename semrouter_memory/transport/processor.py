"""The driver: one coroutine per ext_proc stream, between Envoy's messages and the exchange."""

import hmac
from collections.abc import AsyncIterator
from typing import Protocol

import grpc.aio

from semrouter_memory.exchange.exchange import Exchange, ExchangeSettings
from semrouter_memory.exchange.policy import RouteSettings, route_settings
from semrouter_memory.exchange.replies import NeedRecall
from semrouter_memory.model import Appended, Reason, RecallRequest, RecallResult, Turn
from semrouter_memory.ports import Clock, Observer
from semrouter_memory.transport import wire


class Recaller(Protocol):
    async def recall(self, request: RecallRequest) -> RecallResult:
        """Never raises."""
        ...


class Retainer(Protocol):
    def accept(self, turn: Turn) -> Appended | None:
        """Commit the turn; quick, never raises."""
        ...


class Processor:
    """Serves `ExternalProcessor/Process` for all three kinds of filter.

    Args:
        shared_secret: (metadata name, value) that a stream must carry; None: whoever connects is trusted.
    """

    def __init__(
        self,
        settings: ExchangeSettings,
        *,
        recaller: Recaller,
        retainer: Retainer,
        observer: Observer,
        clock: Clock,
        shared_secret: tuple[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._recaller = recaller
        self._retainer = retainer
        self._observer = observer
        self._clock = clock
        self._shared_secret = shared_secret

    async def process(
        self, stream: AsyncIterator[wire.Message], context: "grpc.aio.ServicerContext[wire.Message, bytes]"
    ) -> AsyncIterator[bytes]:
        """Answer one stream. Ending it early, for whatever reason, makes Envoy go on without us."""
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        if not self._trusted(metadata):
            self._observer.exchange_bypassed(Reason.UNAUTHENTICATED_PROXY)
            return
        exchange = Exchange(self._settings, self._route(metadata), self._clock.now())
        try:
            async for message in stream:
                step = exchange.receive(wire.event_from(message))
                if isinstance(step, NeedRecall):
                    step = exchange.recalled(await self._recaller.recall(step.request))
                if exchange.finished:
                    # Before the last reply: the stream may be torn down during that write.
                    self._hand_over(exchange)
                for reply in wire.replies_to(message, step):
                    yield reply
                if exchange.finished:
                    break
        except Exception as error:  # noqa: BLE001 - the one place that fails open: no bug of ours may cost a request
            self._observer.exchange_failed(error)
        finally:
            self._hand_over(exchange)
            if exchange.refusal is not None and not exchange.observing:
                self._observer.exchange_bypassed(exchange.refusal)

    def _hand_over(self, exchange: Exchange) -> None:
        turn = exchange.take_turn()
        if turn is not None:
            self._retainer.accept(turn)

    def _trusted(self, metadata: dict[str, str]) -> bool:
        if self._shared_secret is None:
            return True
        name, secret = self._shared_secret
        return hmac.compare_digest(metadata.get(name, "").encode(), secret.encode())

    def _route(self, metadata: dict[str, str]) -> RouteSettings:
        route = route_settings(metadata)
        for name in route.ignored:
            self._observer.setting_ignored(name)
        return route
