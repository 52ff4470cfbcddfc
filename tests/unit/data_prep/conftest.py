"""A tiny sentencepiece model for the tests of data_prep.nlu, trained once."""

import pytest

from tests import nlu_bins


@pytest.fixture(scope="session")
def nlu_model(tmp_path_factory):
    return nlu_bins.model_and_dictionary(tmp_path_factory.mktemp("nlu"))


@pytest.fixture
def run(nlu_model, tmp_path):
    """The verb with the tiny model; its data-bin is ``tmp_path / "out"``."""
    return nlu_bins.Run(*nlu_model, tmp_path / "out")
