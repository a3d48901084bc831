"""Fits the learned decisions: `make fit`."""

from training import keep
from training.fitting import write


def main() -> None:
    write("keep", keep.model())


if __name__ == "__main__":
    main()
