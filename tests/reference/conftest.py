"""Hugging Face's package."""

import pytest


@pytest.fixture
def transformers():
    """Imported by the tests that need it: that takes seconds."""
    return pytest.importorskip("transformers", reason="transformers is an extra")
