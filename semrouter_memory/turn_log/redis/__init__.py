"""The turn log in Redis, shared by replicas.

One Redis server, or one with replicas behind a fixed address; Redis Cluster is not supported, because one transaction
changes keys of an owner and of the whole log. `maxmemory-policy` must be `noeviction`.
"""
