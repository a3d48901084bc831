"""What one sees first: a scripted conversation that is remembered, and an installation to try by hand."""
