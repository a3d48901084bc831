"""What a new statement means for what is known, and writing it: subject, attribute, value and negation compared."""
