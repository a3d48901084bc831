"""`python -m semrouter_memory`."""

from semrouter_memory.cli import main

if __name__ == "__main__":
    main()
