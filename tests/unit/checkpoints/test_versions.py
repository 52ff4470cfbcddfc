"""Versions and format number: what is written, what is refused, what is migrated."""

import argparse
from pathlib import Path
from typing import Any, Dict

import fairseq
import pytest
import torch

import fairseq_plugins
from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint, versions
from fairseq_plugins.checkpoints.average import write_average

STAMP = {"version": "9.8.7", "format": versions.FORMAT, "fairseq": "0.12.2", "torch": "2.6.0"}


def state(**entries: Any) -> Dict[str, Any]:
    """A checkpoint without versions."""
    return {"model": {"w": torch.ones(2)}, "cfg": {"model": {"_name": "sga"}}, "args": None, **entries}


def test_the_versions_are_those_in_use_and_plain(tmp_path: Path) -> None:
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


def test_the_log_line_names_all_versions() -> None:
    line = versions.summary()
    for part in (f"fairseq_plugins {fairseq_plugins.__version__}", f"fairseq {fairseq.__version__}", torch.__version__):
        assert part in line
    assert f"format {versions.FORMAT}" in line


def test_a_newer_format_is_refused_with_all_versions(tmp_path: Path) -> None:
    entry = {**STAMP, "format": versions.FORMAT + 1}
    torch.save(state(fairseq_plugins=entry), tmp_path / "model.pt")
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(tmp_path / "model.pt")
    for part in ("model.pt", f"format {versions.FORMAT + 1}", "9.8.7", "0.12.2", "2.6.0", fairseq_plugins.__version__):
        assert part in str(error.value)
    assert f"reads formats 1 to {versions.FORMAT}" in str(error.value)


@pytest.mark.parametrize(
    "entry", [None, "2", {}, {"format": "2"}, {"format": 0}, {"format": True}, {"format": 2.0}, [("format", 2)]]
)
def test_a_damaged_entry_is_refused(entry: Any) -> None:
    with pytest.raises(CheckpointError, match="here: its entry 'fairseq_plugins' is .*from 1 to"):
        versions.migrated(state(fairseq_plugins=entry), "here")


def test_every_older_format_has_a_migration() -> None:
    assert set(versions.MIGRATIONS) == set(range(1, versions.FORMAT))


def test_older_checkpoints_are_migrated_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a number is format 1; the file itself stays as it is."""

    def renamed(content: Dict[str, Any]) -> None:
        content["cfg"]["model"]["_name"] += "2"

    def doubled(content: Dict[str, Any]) -> None:
        content["cfg"]["model"]["_name"] *= 2

    monkeypatch.setattr(versions, "FORMAT", 4)
    monkeypatch.setattr(versions, "MIGRATIONS", {1: lambda content: None, 2: renamed, 3: doubled})
    old, newer = state(), state(fairseq_plugins={**STAMP, "format": 3})
    torch.save(old, tmp_path / "1.pt")
    torch.save(newer, tmp_path / "3.pt")
    found = read_checkpoint(tmp_path / "1.pt")
    assert found["cfg"]["model"]["_name"] == "sga2sga2"
    assert found[versions.KEY] == {"format": 4, "migrated_from": 1}
    found = read_checkpoint(tmp_path / "3.pt")
    assert found["cfg"]["model"]["_name"] == "sgasga"
    assert found[versions.KEY] == {**STAMP, "format": 4, "migrated_from": 3}
    assert versions.migrated(found, "again")["cfg"]["model"]["_name"] == "sgasga"
    assert versions.KEY not in torch.load(tmp_path / "1.pt")


@pytest.mark.parametrize("content", [{"weights": {}}, {"model": 3}, {"roberta.w": torch.ones(1)}])
def test_what_is_no_fairseq_checkpoint_is_left_alone(content: Dict[str, Any]) -> None:
    assert versions.migrated(dict(content), "x").keys() == content.keys()


def test_current_and_stock_checkpoints_pass() -> None:
    same = state(fairseq_plugins=dict(STAMP))
    assert versions.migrated(same, "x")[versions.KEY] == STAMP
    stock = {"model": {}, "args": argparse.Namespace(arch="transformer")}
    assert versions.migrated(stock, "x")["args"].arch == "transformer"


def test_an_average_names_the_versions_that_made_it(tmp_path: Path) -> None:
    for number, entries in enumerate(({}, {"fairseq_plugins": STAMP})):
        torch.save(state(extra_state={}, **entries), tmp_path / f"{number}.pt")
    write_average([tmp_path / "0.pt", tmp_path / "1.pt"], tmp_path / "average.pt")
    assert torch.load(tmp_path / "average.pt")[versions.KEY] == versions.stamp()
