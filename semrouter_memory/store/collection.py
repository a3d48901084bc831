"""The collection: made on first use, and checked against what it was made for.

Where the place can search words, a collection made there has columns for it; one that was made without them, by an
earlier version or on an earlier server, stays as it is.
"""

import json
import re
from typing import Any

from pymilvus import CollectionSchema, DataType, FieldSchema, Function, FunctionType, MilvusException
from pymilvus.milvus_client.index import IndexParams

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.language.bm25 import K1, B
from semrouter_memory.store import schema

_HNSW = {"M": 16, "efConstruction": 200}
_BM25 = {"bm25_k1": K1, "bm25_b": B}
_BY_SPACES = {"tokenizer": "whitespace"}
_FIRST_WITH_BM25 = (2, 5)
_FIRST_SOUND_UPSERT = (2, 4)
"""Up to 2.3.9, upsert puts a row into the partition of another field's hash, where no filter on the key finds it."""


async def prepare(
    client: Any, name: str, *, dimension: int, fingerprint: str, lite: bool, bm25: bool, secondary: bool = False
) -> frozenset[str]:
    """Make the collection if there is none, and load it. May be repeated after it was broken off anywhere.

    Args:
        bm25: the place can search words.
        secondary: the collection belongs to another one, and `embeddings` does not list it.

    Returns:
        The names of this collection's columns: not all can be searched by words.

    Raises:
        ConfigurationError: the collection was made for another schema, dimension or embedding.
    """
    if not await client.has_collection(name):
        described = _described(fingerprint, bm25=bm25, secondary=secondary)
        await _create(client, name, _schema(described, dimension=dimension, lite=lite, bm25=bm25))
    description = await client.describe_collection(name)
    _check(description, name, dimension=dimension, fingerprint=fingerprint)
    columns = frozenset(field["name"] for field in description["fields"])
    if not await client.list_indexes(name, schema.EMBEDDING.name):
        await client.create_index(name, _index(lite=lite))
    if schema.LEXICAL.name in columns and not await client.list_indexes(name, schema.LEXICAL.name):
        await client.create_index(name, _word_index())
    await client.load_collection(name)
    return columns


async def embeddings(client: Any) -> dict[str, str]:
    """The collections of memories that this version or an older one made: name -> fingerprint of the embedding."""
    found: dict[str, str] = {}
    for name in await client.list_collections():
        made_for = _made_for(await client.describe_collection(name))
        if made_for is not None and made_for.get("schema", 0) <= schema.VERSION and not made_for.get("secondary"):
            found[name] = str(made_for["embedding"])
    return found


async def secondaries(client: Any, name: str) -> list[str]:
    """The collections that belong to that one."""
    found = []
    for each in await client.list_collections():
        if each.rpartition("_")[0] == name:
            made_for = _made_for(await client.describe_collection(each))
            found += [each] if made_for is not None and made_for.get("secondary") else []
    return found


def can_upsert_with_key(version: str) -> bool:
    """Whether that server's upsert heeds the partition key. What names no version is a managed, newer one."""
    return _is_at_least(_FIRST_SOUND_UPSERT, version)


def can_search_words(version: str) -> bool:
    """Whether that server has BM25 functions.

    Nothing but Milvus Lite was there to try them on; the code is the same for a server.
    """
    return _is_at_least(_FIRST_WITH_BM25, version)


def _is_at_least(wanted: tuple[int, int], version: str) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= wanted


async def _create(client: Any, name: str, layout: CollectionSchema) -> None:
    try:
        await client.create_collection(name, schema=layout, consistency_level="Bounded")
    except MilvusException:
        # Another process may have been faster.
        if not await client.has_collection(name):
            raise


def _described(fingerprint: str, *, bm25: bool, secondary: bool) -> str:
    """What Milvus cannot check: as the description, it survives on a server of any version and on Lite."""
    version = schema.VERSION if bm25 else schema.WITHOUT_WORDS
    return json.dumps({"schema": version, "embedding": fingerprint} | ({"secondary": True} if secondary else {}))


def _schema(described: str, *, dimension: int, lite: bool, bm25: bool) -> CollectionSchema:
    columns = (*schema.COLUMNS, schema.RECORD, *(schema.WORD_COLUMNS if bm25 else ()))
    return CollectionSchema(
        [_field(column, dimension=dimension, lite=lite) for column in columns],
        functions=[_bm25()] if bm25 else [],
        description=described,
        enable_dynamic_field=False,
    )


def _bm25() -> Function:
    return Function(
        name="bm25",
        function_type=FunctionType.BM25,
        input_field_names=[schema.TERMS.name],
        output_field_names=[schema.LEXICAL.name],
    )


def _field(column: schema.Column, *, dimension: int, lite: bool) -> FieldSchema:
    kind = DataType[column.kind]
    details: dict[str, Any] = {}
    if kind is DataType.VARCHAR:
        details["max_length"] = schema.MAX_VARCHAR_BYTES
    if column is schema.EMBEDDING:
        details["dim"] = dimension
    if column is schema.TERMS:
        details |= {"enable_analyzer": True, "analyzer_params": _BY_SPACES}
    if column is schema.ID:
        details["is_primary"] = True
    if column is schema.OWNER and not lite:
        # Lite takes a partition key and then refuses every filter on it.
        details["is_partition_key"] = True
    return FieldSchema(column.name, kind, **details)


def _index(*, lite: bool) -> IndexParams:
    index = IndexParams()
    if lite:
        index.add_index(schema.EMBEDDING.name, index_type="FLAT", metric_type="COSINE", params={})
    else:
        index.add_index(schema.EMBEDDING.name, index_type="HNSW", metric_type="COSINE", params=_HNSW)
    return index


def _word_index() -> IndexParams:
    index = IndexParams()
    index.add_index(schema.LEXICAL.name, index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=_BM25)
    return index


def _check(description: dict[str, Any], name: str, *, dimension: int, fingerprint: str) -> None:
    made_for = _made_for(description)
    if made_for is None:
        raise ConfigurationError(
            f"the Milvus collection {name!r} was not made by this service; set memory.milvus.collection to another name"
        )
    found = _dimension(description)
    if found != dimension:
        raise ConfigurationError(_advice(name, f"vectors of {found} dimensions, the embedding gives {dimension}"))
    if made_for.get("schema", 0) > schema.VERSION:
        raise ConfigurationError(
            f"the Milvus collection {name!r} has schema {made_for['schema']}, this version has {schema.VERSION}, which cannot copy"
            " it: start the newer version, or set memory.milvus.collection to a new name to begin with an empty one"
        )
    if made_for.get("schema") not in {schema.VERSION, schema.WITHOUT_WORDS, *schema.WITHOUT_RECORDS}:
        raise ConfigurationError(_advice(name, f"schema {made_for.get('schema')}, this version has {schema.VERSION}"))
    if made_for.get("embedding") != fingerprint:
        raise ConfigurationError(
            _advice(name, f"vectors of the embedding {made_for.get('embedding')}, configured is {fingerprint}")
        )


def _advice(name: str, contradiction: str) -> str:
    return (
        f"the Milvus collection {name!r} holds {contradiction}. Go back to what it was made with, or set"
        " memory.milvus.collection to a new name and start; the memories in the old collection stay as they are, and"
        " `semrouter-memory memory reembed` then copies them into the new one"
    )


def _made_for(description: dict[str, Any]) -> dict[str, Any] | None:
    try:
        made_for = json.loads(description.get("description", ""))
    except ValueError:
        return None
    return made_for if isinstance(made_for, dict) and "embedding" in made_for else None


def _dimension(description: dict[str, Any]) -> int | None:
    for field in description["fields"]:
        if field["name"] == schema.EMBEDDING.name:
            return int(field["params"]["dim"])
    return None
