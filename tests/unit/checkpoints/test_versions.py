"""Versions and format number: what is written and what is refused."""

import argparse

import fairseq
import pytest
import torch

import fairseq_plugins
from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint, versions
from fairseq_plugins.checkpoints.average import write_average

STAMP = {"version": "9.8.7", "format": versions.FORMAT, "fairseq": "0.12.2", "torch": "2.6.0"}


def state(**entries):
    """A checkpoint without versions."""
    return {"model": {"w": torch.ones(2)}, "cfg": {"model": {"_name": "sga"}}, "args": None, **entries}


def test_an_average_names_the_versions_that_made_it(tmp_path):
    """As plain values, which torch reads without an allow-list."""
    for number, entries in enumerate(({}, {versions.KEY: STAMP})):
        torch.save(state(extra_state={}, **entries), tmp_path / f"{number}.pt")
    write_average([tmp_path / "0.pt", tmp_path / "1.pt"], tmp_path / "average.pt")
    found = torch.load(tmp_path / "average.pt", weights_only=True)[versions.KEY]
    expected = {"version": fairseq_plugins.__version__, "format": 1}
    assert found == {**expected, "fairseq": fairseq.__version__, "torch": torch.__version__}
    assert all(str(value) in versions.summary() for value in found.values())


def test_a_newer_format_is_refused_with_all_versions(tmp_path):
    torch.save(state(fairseq_plugins={**STAMP, "format": 2}), tmp_path / "model.pt")
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(tmp_path / "model.pt")
    for part in ("model.pt", "format 2", "9.8.7", "0.12.2", "2.6.0", fairseq_plugins.__version__, "formats 1 to 1"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "entry", [None, "1", {}, {"format": "1"}, {"format": 0}, {"format": True}, {"format": 1.0}, [("format", 1)]]
)
def test_a_damaged_entry_is_refused(entry):
    with pytest.raises(CheckpointError, match="here: its entry 'fairseq_plugins' is .*from 1 to"):
        versions.check_versions(state(fairseq_plugins=entry), "here")


@pytest.mark.parametrize("content", [{"model": 3}, [1], {"args": argparse.Namespace()}, state(fairseq_plugins=STAMP)])
def test_current_stock_and_other_files_pass(content):
    versions.check_versions(content, "x")
    assert (versions.stamped(content) is content) is ("model" not in content)
