"""Word lists that reconciling compares statements with. Pure."""
