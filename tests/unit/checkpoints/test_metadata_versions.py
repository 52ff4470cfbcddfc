"""Test the versions and the format number of checkpoints: written, and refused."""

import argparse

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils

import fairseq_plugins
from fairseq_plugins.checkpoints import CheckpointError, metadata, read_checkpoint
from fairseq_plugins.checkpoints.average import write_average

STAMP = {"version": "9.8.7", "format": metadata.FORMAT, "fairseq": "0.12.2", "torch": "2.6.0"}


def checkpoint(**entries):
    """Return a checkpoint without versions."""
    cfg = {"model": {"_name": "sga"}}
    return {"model": {"w": torch.ones(2)}, "cfg": cfg, "args": None, **entries}


def refusal(path, content, reader=read_checkpoint):
    """Return the message with which a checkpoint is refused."""
    torch.save(content, path)
    with pytest.raises(CheckpointError) as error:
        reader(str(path))
    return str(error.value)


def test_an_average_names_the_versions_that_wrote_it(tmp_path):
    """Write plain values, which torch reads without an allow-list."""
    torch.save(checkpoint(extra_state={}), tmp_path / "0.pt")
    torch.save(checkpoint(extra_state={}, fairseq_plugins=STAMP), tmp_path / "1.pt")
    write_average([tmp_path / "0.pt", tmp_path / "1.pt"], tmp_path / "average.pt")
    actual = torch.load(tmp_path / "average.pt", weights_only=True)[metadata.VERSIONS]
    expected = {"version": fairseq_plugins.__version__, "format": 1}
    assert actual == {**expected, "fairseq": fairseq.__version__, "torch": torch.__version__}
    assert all(str(value) in metadata.summary() for value in actual.values())


@pytest.mark.parametrize(
    "reader",
    [
        read_checkpoint,
        checkpoint_utils.load_checkpoint_to_cpu,
        checkpoint_utils.load_ema_from_checkpoint,
    ],
)
def test_a_newer_format_is_refused_with_all_versions(tmp_path, reader):
    content = checkpoint(fairseq_plugins={**STAMP, "format": 2})
    message = refusal(tmp_path / "model.pt", content, reader)
    versions = ("9.8.7", "0.12.2", "2.6.0", fairseq_plugins.__version__)
    for part in ("model.pt", "format 2", *versions, "formats 1 to 1"):
        assert part in message


@pytest.mark.parametrize(
    "entry", [None, {}, {"format": "1"}, {"format": 0}, {"format": True}, [("format", 1)]]
)
def test_a_damaged_entry_is_refused(entry):
    with pytest.raises(CheckpointError, match="here: its entry 'fairseq_plugins'"):
        metadata.check_versions(checkpoint(fairseq_plugins=entry), "here")


@pytest.mark.parametrize(
    "content", [{"model": 3}, [1], {"args": None}, checkpoint(fairseq_plugins=STAMP)]
)
def test_current_and_unstamped_files_pass(content):
    metadata.check_versions(content, "x")
    assert (metadata.stamped(content) is content) is ("model" not in content)


@pytest.fixture
def retired(monkeypatch):
    """Retire an architecture, a criterion and a value of an option."""
    entries = {("arch", "old_arch"): "0.1.0", ("criterion", "old_loss"): "0.2.1"}
    entries["old_switch", "True"] = "0.1.0"
    monkeypatch.setattr(metadata, "RETIRED", entries)


@pytest.mark.cases(
    "section option value version",
    ("model", "arch", "old_arch", "0.1.0"),
    ("criterion", "criterion", "old_loss", "0.2.1"),
    ("task", "old_switch", True, "0.1.0"),
)
def test_a_retired_option_is_refused(tmp_path, retired, section, option, value, version):
    args = {"args": argparse.Namespace(**{option: value}), "cfg": None}
    cfg = {"cfg": {section: {option if option == "old_switch" else "_name": value}}}
    for entries in (args, cfg):
        message = refusal(tmp_path / "model.pt", checkpoint(**entries))
        last = f"last version that reads it is fairseq_plugins {version}"
        for part in ("model.pt", f"{option} '{value}'", metadata.__version__, last):
            assert part in message


def test_other_values_of_a_retired_option_are_read(tmp_path, retired):
    options = {"_name": "sga", "old_switch": False, "criterion": ["old_loss"]}
    torch.save(checkpoint(cfg={"model": options, "task": None}), tmp_path / "model.pt")
    assert read_checkpoint(tmp_path / "model.pt")["cfg"]["model"] == options
