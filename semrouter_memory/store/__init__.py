"""Where memories live: Milvus (a server, or Milvus Lite in a file), and an in-memory store for unit tests.

`schema` is pure: the columns of a row and the filter expression of a query. `milvus.MilvusStore` and
`in_memory.InMemoryStore` implement the ports `MemoryReader` and `MemoryWriter`.
"""
