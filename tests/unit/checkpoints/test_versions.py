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


def test_the_versions_are_those_in_use_and_plain(tmp_path):
    before = state()
    after = versions.stamped(before)
    assert versions.KEY not in before
    assert after[versions.KEY] == {
        "version": fairseq_plugins.__version__,
        "format": versions.FORMAT,
        "fairseq": fairseq.__version__,
        "torch": torch.__version__,
    }
    assert {type(value) for value in after[versions.KEY].values()} == {str, int}
    torch.save(after, tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt", weights_only=True)[versions.KEY] == after[versions.KEY]
    for other in ({"weights": 1}, [1], torch.ones(1)):
        assert versions.stamped(other) is other
    for part in (fairseq_plugins.__version__, fairseq.__version__, torch.__version__, f"format {versions.FORMAT}"):
        assert part in versions.summary()


def test_a_newer_format_is_refused_with_all_versions(tmp_path):
    entry = {**STAMP, "format": versions.FORMAT + 1}
    torch.save(state(fairseq_plugins=entry), tmp_path / "model.pt")
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(tmp_path / "model.pt")
    for part in ("model.pt", f"format {versions.FORMAT + 1}", "9.8.7", "0.12.2", "2.6.0", fairseq_plugins.__version__):
        assert part in str(error.value)
    assert f"reads formats 1 to {versions.FORMAT}" in str(error.value)


@pytest.mark.parametrize(
    "entry", [None, "1", {}, {"format": "1"}, {"format": 0}, {"format": True}, {"format": 1.0}, [("format", 1)]]
)
def test_a_damaged_entry_is_refused(entry):
    with pytest.raises(CheckpointError, match="here: its entry 'fairseq_plugins' is .*from 1 to"):
        versions.check_versions(state(fairseq_plugins=entry), "here")


@pytest.mark.parametrize(
    "content",
    [
        *({"weights": {}}, {"model": 3}, {"roberta.w": torch.ones(1)}, [1]),
        {"model": {}, "args": argparse.Namespace(arch="transformer")},  # of stock fairseq
        state(fairseq_plugins=STAMP),
    ],
)
def test_current_stock_and_other_files_pass(content):
    versions.check_versions(content, "x")


def test_an_average_names_the_versions_that_made_it(tmp_path):
    for number, entries in enumerate(({}, {"fairseq_plugins": STAMP})):
        torch.save(state(extra_state={}, **entries), tmp_path / f"{number}.pt")
    write_average([tmp_path / "0.pt", tmp_path / "1.pt"], tmp_path / "average.pt")
    assert torch.load(tmp_path / "average.pt")[versions.KEY] == versions.stamp()
