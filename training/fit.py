"""Fits the learned decisions: `make fit`; for another embedding model `make fit PROFILE=<configuration file>`.

The decisions of the default model go into the package. Those of another one that depend on its vectors go into its directory, where
the service reads them.
"""

import sys
from pathlib import Path

from semrouter_memory.config import loading
from training import documents, fitting, keep, meant, overview, relation, relevance, steering
from training.fitting import write


def main(profile: Path | None = None) -> None:
    if profile is None:
        write("keep", keep.model())
        write("steering", steering.model())
        write("overview", overview.model())
        _of_similarities()
        return
    with fitting.profile(loading.load(profile)):
        _of_similarities()


def _of_similarities() -> None:
    """The decisions that depend on the embedding model."""
    write("keep_in_doubt", keep.model_in_doubt())
    write("relation", relation.model())
    wants, relevant = relevance.models()
    write("wants", wants)
    write("relevance", relevant)
    write("passages", documents.model())
    # Last: it sees the relevance that was just fitted.
    write("meant", meant.model())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
