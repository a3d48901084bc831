"""How memories leave: expiry, quotas, pruning, consolidation, use; and the compaction of files."""
