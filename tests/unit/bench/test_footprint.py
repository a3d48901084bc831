"""What owner indexes take is measured within their bound."""

import pytest

from semrouter_memory.bench import footprint


async def test_more_users_than_fit_leave_the_owner_indexes_within_their_bound() -> None:
    measured = await footprint.measured(users=30, memories=100, max_mb=1)

    assert measured.most_bytes <= measured.bound_bytes
    assert 0 < measured.kept < measured.users
    assert measured.counted_bytes == pytest.approx(measured.bound_bytes, rel=0.2)


async def test_users_that_fit_are_all_at_hand() -> None:
    measured = await footprint.measured(users=12, memories=20, max_mb=8)

    assert measured.kept == measured.users
