"""Where memories live: Milvus (a server, or Milvus Lite in a file), and an in-memory store for unit tests.

`schema` is pure: what a row looks like and how a question becomes a filter expression. `milvus.MilvusStore` and
`in_memory.InMemoryStore` implement the ports `MemoryReader` and `MemoryWriter`.
"""
