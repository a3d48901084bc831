"""Word lists in readable form. Pure."""


def words(text: str) -> frozenset[str]:
    """The words of a list, as a set."""
    return frozenset(text.split())
