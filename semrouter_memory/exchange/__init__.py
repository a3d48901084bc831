"""One HTTP exchange as Envoy shows it, without I/O: messages come in as events, replies go out. Pure."""
