"""What a new statement means for what is known, and writing it: a learned relation within guards."""
