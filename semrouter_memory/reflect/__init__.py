"""What a model says of memories: answers with citations and insights, each held against its sources."""
