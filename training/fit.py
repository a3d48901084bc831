"""Fits the learned decisions: `make fit`."""

from training import documents, keep, relation, relevance
from training.fitting import write


def main() -> None:
    write("keep", keep.model())
    write("keep_in_doubt", keep.model_in_doubt())
    write("relation", relation.model())
    wants, relevant = relevance.models()
    write("wants", wants)
    write("relevance", relevant)
    write("passages", documents.model())


if __name__ == "__main__":
    main()
