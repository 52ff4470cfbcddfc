"""The package transformers."""

import pytest


@pytest.fixture
def hf():
    """The package transformers, imported late because that takes seconds."""
    import transformers

    return transformers
