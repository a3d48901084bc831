"""Every target over its seeds and mutations of them, the same each time; `make fuzz` searches on with coverage."""

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

MUTATIONS = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_no_seed_and_no_mutation_of_one_breaks_a_promise(name: str) -> None:
    for data in mutated(SEEDS[name], MUTATIONS, seed=len(name)):
        TARGETS[name](data)
