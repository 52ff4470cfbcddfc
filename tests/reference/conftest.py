"""The package transformers."""

import pytest


@pytest.fixture
def transformers():
    """The package, imported late because that takes seconds."""
    return pytest.importorskip("transformers", reason="transformers is an extra")
