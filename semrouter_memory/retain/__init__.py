"""After the answer: turns are accepted, and what they say about the user becomes memories."""
