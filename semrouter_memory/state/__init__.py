"""What replicas share besides the turn log: state of sessions, usage of memories, locks and versions of owners."""
