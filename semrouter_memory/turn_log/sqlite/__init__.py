"""The turn log and the state store in SQLite files."""
