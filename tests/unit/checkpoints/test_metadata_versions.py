"""Versions and format number: what is written and what is refused."""

import argparse

import fairseq
import pytest
import torch

import fairseq_plugins
from fairseq_plugins.checkpoints import CheckpointError, metadata, read_checkpoint
from fairseq_plugins.checkpoints.average import write_average

STAMP = {"version": "9.8.7", "format": metadata.FORMAT, "fairseq": "0.12.2", "torch": "2.6.0"}


def state(**entries):
    """A checkpoint without versions."""
    return {"model": {"w": torch.ones(2)}, "cfg": {"model": {"_name": "sga"}}, "args": None, **entries}


def test_an_average_names_the_versions_that_made_it(tmp_path):
    """As plain values, which torch reads without an allow-list."""
    for number, entries in enumerate(({}, {metadata.VERSIONS: STAMP})):
        torch.save(state(extra_state={}, **entries), tmp_path / f"{number}.pt")
    write_average([tmp_path / "0.pt", tmp_path / "1.pt"], tmp_path / "average.pt")
    actual = torch.load(tmp_path / "average.pt", weights_only=True)[metadata.VERSIONS]
    expected = {"version": fairseq_plugins.__version__, "format": 1}
    assert actual == {**expected, "fairseq": fairseq.__version__, "torch": torch.__version__}
    assert all(str(value) in metadata.summary() for value in actual.values())


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
        metadata.check_versions(state(fairseq_plugins=entry), "here")


@pytest.mark.parametrize("content", [{"model": 3}, [1], {"args": argparse.Namespace()}, state(fairseq_plugins=STAMP)])
def test_current_stock_and_other_files_pass(content):
    metadata.check_versions(content, "x")
    assert (metadata.stamped(content) is content) is ("model" not in content)


RETIRED = {("arch", "old_arch"): "0.1.0", ("criterion", "old_loss"): "0.2.1", ("old_switch", "True"): "0.1.0"}


@pytest.mark.parametrize("as_args", [True, False])
@pytest.mark.parametrize(
    ("section", "options", "needs", "last"),
    [
        ("model", {"_name": "old_arch"}, "arch 'old_arch'", "0.1.0"),
        ("criterion", {"_name": "old_loss"}, "criterion 'old_loss'", "0.2.1"),
        ("task", {"_name": "t", "old_switch": True}, "old_switch 'True'", "0.1.0"),
    ],
)
def test_a_checkpoint_that_needs_something_retired_names_the_last_version(
    tmp_path, monkeypatch, as_args, section, options, needs, last
):
    monkeypatch.setattr(metadata, "RETIRED", RETIRED)
    names = {"model": "arch", "criterion": "criterion", "task": "task"}
    flat = {names[section] if name == "_name" else name: value for name, value in options.items()}
    entries = {"args": argparse.Namespace(**flat), "cfg": None} if as_args else {"cfg": {section: options}}
    torch.save(state(**entries), tmp_path / "model.pt")
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(tmp_path / "model.pt")
    for part in ("model.pt", needs, metadata.__version__, f"last version that reads it is fairseq_plugins {last}"):
        assert part in str(error.value)


def test_other_values_of_a_retired_option_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(metadata, "RETIRED", RETIRED)
    options = {"_name": "sga", "old_switch": False, "criterion": ["old_loss"]}
    torch.save(state(cfg={"model": options, "task": None}), tmp_path / "model.pt")
    assert read_checkpoint(tmp_path / "model.pt")["cfg"]["model"] == options
