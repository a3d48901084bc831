"""What is known of English and Chinese text, whatever it is needed for. Pure."""
