"""A store, the owner indexes over it and the writer that keeps them current, as one replica has them."""

from collections.abc import Callable

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_cache import AnnouncingWriter, IndexCache
from semrouter_memory.store.index_record import Label
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_index import unlabelled
from semrouter_memory.store.owner_versions import OwnerVersions


class IndexedStore:
    """One replica.

    Attributes:
        store: read directly; what is written there is not announced.
    """

    def __init__(
        self,
        store: InMemoryStore | MilvusStore,
        versions: OwnerVersions,
        *,
        on_error: Callable[[BaseException], object],
        config: OwnerIndexConfig | None = None,
        label: Label = unlabelled,
    ) -> None:
        self.store = store
        self.indexes = IndexCache(store, versions, config=config or OwnerIndexConfig(), on_error=on_error, label=label)
        self.writer = AnnouncingWriter(store, self.indexes)
        self.upsert = self.writer.upsert
        self.delete = self.writer.delete
        self.delete_all = self.writer.delete_all
        self.index = self.indexes.get
        self.close = self.indexes.close

    @property
    def owners(self) -> int:
        return self.indexes.owners

    @property
    def nbytes(self) -> int:
        return self.indexes.nbytes
