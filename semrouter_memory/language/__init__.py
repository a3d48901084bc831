"""How messages are written: whose words stand in them, and how they are laid out. Pure."""
