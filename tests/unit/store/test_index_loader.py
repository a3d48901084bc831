"""Loads of owner indexes in the background."""

import asyncio

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.model import Scope
from semrouter_memory.state.local import InProcessOwnerVersions
from semrouter_memory.store.index_loader import CacheEntry, IndexLoader
from semrouter_memory.store.owner_index import unlabelled
from semrouter_memory.store.owner_versions import WriteAnnouncer
from tests.gated_store import GatedStore


async def test_a_load_that_is_delayed_keeps_no_other_waiting() -> None:
    """An index in use is loaded again at once, however many new users have just come."""
    loaded: list[str] = []
    errors: list[BaseException] = []

    def take(scope: Scope, _entry: CacheEntry | None) -> None:
        loaded.append(scope.owner_id)

    loader = IndexLoader(
        GatedStore(),
        WriteAnnouncer(InProcessOwnerVersions()),
        config=OwnerIndexConfig(),
        label=unlabelled,
        loaded=take,
        on_error=errors.append,
    )
    for number in range(10):
        loader.load(Scope(f"new-{number}"), delay=60)
    await asyncio.sleep(0)
    loading = loader.load(Scope("active"))
    assert loading is not None
    await asyncio.wait({loading.task}, timeout=2)
    assert loaded == ["active"]
    await loader.close()
    assert not errors
