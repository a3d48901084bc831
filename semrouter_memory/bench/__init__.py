"""What memory adds to a request, as ratios to the floor that is measured in the same run."""
