"""Random requests, asked of both servers: ``python -m tests.testing.play`` asks more."""

import pytest

from tests.testing.conftest import on_both
from tests.testing.play import play, rehearse
from tests.testing.twins import Twins


@on_both
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_random_requests_are_answered_alike(twins: Twins, namespace: str, seed: int) -> None:
    """Codes, messages, causes, and stored objects, after creations, patches, applies and deletions."""
    play(twins, namespace, seed, requests=300)


@on_both
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_objects_of_each_kind_are_taken_or_refused_alike(
    twins: Twins, namespace: str, seed: int
) -> None:
    """Zeros, doubles, nulls, odd texts and owners, wrong types, and all fields that kinds have."""
    assert rehearse(twins, namespace, seed, requests=600) > 100
