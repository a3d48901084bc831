"""The SQLite files of the data directory and the Redis server, as the turn log and the shared state use them."""
