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
        self.answering = asyncio.Event()
        self.answering.set()

    async def current(self, scope: Scope) -> int:
        assert scope == ALICE
        return self.version

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        assert scope == ALICE
        if self.errors:
            raise self.errors.pop(0)
        self.version += 1
        advanced = self.version - 1, self.version
        await self.answering.wait()
        return advanced


async def test_an_announcement_is_retried_whatever_its_error_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the other replicas use stale indexes."""
    monkeypatch.setattr(owner_versions, "_RETRY_SECONDS", 0.001)
    versions = Versions(
        UnavailableError("unavailable", service=Service.OWNER_VERSIONS),
        RuntimeError("unexpected"),
        UnavailableError("unavailable", service=Service.OWNER_VERSIONS),
    )
    announcer = WriteAnnouncer(versions)
    assert await announcer.after_write(ALICE) == (None, None)
    async with asyncio.timeout(60):
        while not versions.version:  # noqa: ASYNC110 - the announcer has no event to wait for
            await asyncio.sleep(0.001)
    await announcer.close()
    assert versions.version == 1


async def test_an_announcement_that_falls_due_while_another_is_answered_late_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request announces the write before, and the answer is late; meanwhile a write begins, and cannot be announced as done."""
    monkeypatch.setattr(owner_versions, "_RETRY_SECONDS", 3600)
    away = UnavailableError("away", service=Service.OWNER_VERSIONS)
    versions = Versions(away, away)
    announcer = WriteAnnouncer(versions)
    await announcer.after_write(ALICE)
    await asyncio.sleep(0)  # tried again at once, and in an hour
    versions.answering.clear()
    asking = asyncio.create_task(announcer.current(ALICE))
    await asyncio.sleep(0)
    late, versions.answering = versions.answering, asyncio.Event()
    versions.answering.set()
    _, announced = await announcer.before_write(ALICE)
    versions.errors.append(away)
    assert await announcer.after_write(ALICE) == (None, None)
    late.set()
    await asking
    assert await announcer.current(ALICE) > announced
    await announcer.close()
