"""What several tests share is seeded as each test is, so no result depends on the order of the tests or on how they are spread."""

import random
from typing import Tuple

import numpy as np
import pytest
import torch

from tests.conftest import seed_all


def draw() -> Tuple[float, float, float]:
    """One number of each generator."""
    return random.random(), float(np.random.rand()), torch.rand(()).item()


@pytest.fixture(scope="module")
def drawn() -> Tuple[float, float, float]:
    """Numbers that a shared model would begin with."""
    return draw()


def test_tests_and_what_they_share_begin_with_the_same_numbers(drawn: Tuple[float, float, float]) -> None:
    own = draw()
    seed_all()
    assert draw() == own == drawn
