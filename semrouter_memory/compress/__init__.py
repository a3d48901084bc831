"""Context compression: a structured state in place of the beginning of a long conversation."""
