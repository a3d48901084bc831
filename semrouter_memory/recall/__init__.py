"""The request phase: which memories a request is given, and in what words."""
