"""Measures what memory adds to a request, against the floor of the same run; not part of the wheel."""
