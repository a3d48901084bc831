"""SANS-IO. One HTTP exchange as Envoy shows it: messages come in as events, answers go out as replies."""
