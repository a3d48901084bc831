"""The operator's route that shows what a sidecar and Envoy say to each other, as it happens. Never on the users' port.

The application puts what makes recordings into its state. The route is no part of the API's description: what it sends is
a recording (`proto/recording.proto`), for `semrouter-memory record`.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Protocol

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from semrouter_memory.manage.access import exactly
from semrouter_memory.replay.recordings import LiveOptions

_MAX_SECONDS = 24 * 3600

router = APIRouter(prefix="/v1", include_in_schema=False)


class LiveRecordings(Protocol):
    def live(self, options: LiveOptions) -> AsyncIterator[bytes]:
        """The recording, piece by piece, from now on."""
        ...


@router.post("/recording", dependencies=[exactly("seconds", "sample", "pseudonymise", "redact")])
async def record(
    request: Request,
    *,
    seconds: Annotated[float, Query(gt=0, le=_MAX_SECONDS)] = 60,
    sample: Annotated[float, Query(gt=0, le=1)] = 1,
    pseudonymise: bool = False,
    redact: Annotated[list[str] | None, Query(max_length=256)] = None,
) -> StreamingResponse:
    """Record for so long."""
    recordings: LiveRecordings = request.app.state.recordings
    options = LiveOptions(seconds=seconds, sample=sample, pseudonymise=pseudonymise, headers=tuple(redact or ()))
    return StreamingResponse(recordings.live(options), media_type="application/octet-stream")
