"""Own text of users, told apart from what they paste, quote or hand over. Pure."""
