"""Announcements of writes to other replicas."""

import asyncio

import pytest

from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.store import owner_versions
from semrouter_memory.store.owner_versions import WriteAnnouncer

ALICE = Scope("alice")


class Versions:
    """Fails as it is told, then counts."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.version = 0

    async def current(self, scope: Scope) -> int:
        raise NotImplementedError

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        assert scope == ALICE
        if self.errors:
            raise self.errors.pop(0)
        self.version += 1
        return self.version - 1, self.version


async def test_an_announcement_is_retried_whatever_its_error_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the other replicas use stale indexes."""
    monkeypatch.setattr(owner_versions, "_RETRY_SECONDS", 0.001)
    unavailable = UnavailableError("unavailable", service=Service.OWNER_VERSIONS)
    versions = Versions(unavailable, RuntimeError("unexpected"), unavailable)
    announcer = WriteAnnouncer(versions)
    assert await announcer.after_write(ALICE) == (None, None)
    async with asyncio.timeout(2):
        while not versions.version:  # noqa: ASYNC110 - the announcer has no event to wait for
            await asyncio.sleep(0.001)
    await announcer.close()
    assert versions.version == 1
