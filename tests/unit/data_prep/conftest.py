"""Train a tiny sentencepiece model once for the tests of data_prep.nlu."""

import pytest

from tests import nlu_bins


@pytest.fixture(scope="session")
def nlu_model(tmp_path_factory):
    return nlu_bins.model_and_dictionary(tmp_path_factory.mktemp("nlu"))


@pytest.fixture
def run(nlu_model, tmp_path):
    """Return a call of nlu with the tiny model; its data-bin is ``tmp_path / "out"``."""
    return nlu_bins.Run(*nlu_model, tmp_path / "out")
