"""The version protocol that keeps cached owner indexes correct across replicas.

Strategy. Every owner has a version that all replicas share. An index is labelled with the version read before the store was,
and is used only while that version is current. A write advances the version twice. Before it: from then on no replica uses an
older index, even if this process dies right after. After it: an index that was loaded during the write, and may show either
state, is not used either. If the first advance fails, the write is not made. If the second fails, it is retried until it
succeeds; if the process dies before, a replica that loaded an index during the write is stale for `max_age_seconds`. A replica
also serves stale data for that long if the version store lost its last versions.
"""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Protocol

from semrouter_memory.errors import StoreUnavailableError, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.workers import BackgroundTasks

_RETRY_SECONDS = 1.0


class OwnerVersions(Protocol):
    """A version per owner that every write changes, shared by all replicas. Raises `UnavailableError`."""

    async def current(self, scope: Scope) -> int: ...

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        """Replace the owner's version by one that it never had before.

        Returns:
            The previous version (None if there was none) and the new one.
        """


class WriteAnnouncer:
    """Advances an owner's version before and after each write."""

    def __init__(self, versions: OwnerVersions) -> None:
        self._versions = versions
        self._pending: dict[str, int] = {}
        """Owners with an announcement that is due, and which one it is."""
        self._numbers = count()
        self._retrying = BackgroundTasks()

    async def close(self) -> None:
        """Stop the retries and announce once more what is pending."""
        await self._retrying.stop()
        with suppress(UnavailableError):
            await self._announce_pending()

    async def current(self, scope: Scope) -> int:
        """The owner's version, after the writes of this process were announced. Raises `UnavailableError`."""
        if scope.owner in self._pending:
            await self._advance(scope)
        return await self._versions.current(scope)

    async def before_write(self, scope: Scope) -> tuple[int | None, int]:
        """The previous and the new version.

        Raises:
            StoreUnavailableError: the write cannot be announced and must not be made.
        """
        try:
            return await self._advance(scope)
        except UnavailableError as error:
            raise StoreUnavailableError(f"the write could not be announced: {error}") from None

    async def after_write(self, scope: Scope) -> tuple[int | None, int | None]:
        """The previous and the new version; None for both while the announcement is pending."""
        try:
            return await self._versions.advance(scope)
        except UnavailableError:
            self._retry(scope)
            return None, None
        except BaseException:
            # The caller was cancelled; the announcement is still due.
            self._retry(scope)
            raise

    def _retry(self, scope: Scope) -> None:
        self._pending[scope.owner] = next(self._numbers)
        if not self._retrying:
            self._retrying.start(self._announce_until_done(), name="owner-version-announcements")

    async def _advance(self, scope: Scope) -> tuple[int | None, int]:
        """Advance the version, which makes what was due before; what fell due meanwhile still is."""
        due = self._pending.get(scope.owner)
        advanced = await self._versions.advance(scope)
        if self._pending.get(scope.owner) == due:
            self._pending.pop(scope.owner, None)
        return advanced

    async def _announce_until_done(self) -> None:
        while self._pending:
            # Whatever the error is: other replicas have stale indexes until this succeeds.
            with suppress(Exception):
                await self._announce_pending()
                continue
            await asyncio.sleep(_RETRY_SECONDS)

    async def _announce_pending(self) -> None:
        for owner in list(self._pending):
            await self._advance(Scope.of_owner(owner))
