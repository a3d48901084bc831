"""Documents of an organisation: reading, splitting, storing, finding."""
