"""Deletes memories: the one package that knows every trace of a memory (`tombstone`, `purge`, `compact`)."""
