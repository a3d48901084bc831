"""Where memories live: Milvus (a server, or Milvus Lite in a file), and an in-memory store for unit tests.

`schema` is pure: the columns of a row and the filter expression of a query. `memory_collection` implements the ports
`MemoryReader` and `MemoryWriter` over rows, wherever these are; `milvus` and `in_memory` have the rows.
"""
