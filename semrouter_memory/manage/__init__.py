"""The management API: what its users and operators may do with stored memories, over HTTP."""
