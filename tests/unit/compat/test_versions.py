"""Every checkpoint that fairseq writes carries versions, every one that it reads is looked at; whatever is switched off."""

import logging

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_plugins import compat
from fairseq_plugins.checkpoints import versions
from fairseq_plugins.compat.patch import ModuleProxy


def state(**entries):
    """What fairseq's reader accepts."""
    history = [{"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}}
    cfg = {"model": {"_name": "transformer", "dropout": 0.1}, "task": {"_name": "translation"}}
    return {"model": {}, "args": None, "cfg": cfg, "optimizer_history": history, "extra_state": extra, **entries}


def test_what_is_saved_carries_the_versions(tmp_path):
    content = state()
    checkpoint_utils.torch_persistent_save(content, str(tmp_path / "model.pt"))
    checkpoint_utils.torch_persistent_save({"step": 1}, str(tmp_path / "other.pt"))
    assert torch.load(tmp_path / "model.pt")[versions.KEY] == versions.stamp()
    assert torch.load(tmp_path / "other.pt") == {"step": 1}
    assert versions.KEY not in content
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"))[versions.KEY] == versions.stamp()


@pytest.mark.parametrize("read", ["load_checkpoint_to_cpu", "load_ema_from_checkpoint"])
def test_a_newer_format_is_refused(tmp_path, read):
    entry = {**versions.stamp(), "format": versions.FORMAT + 1, "version": "9.8.7"}
    torch.save(state(fairseq_plugins=entry), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=rf"model\.pt: was written in format {versions.FORMAT + 1} by .* 9\.8\.7"):
        getattr(checkpoint_utils, read)(str(tmp_path / "model.pt"))


def test_it_is_installed_once_whatever_is_switched_off(monkeypatch, caplog):
    monkeypatch.setenv(compat.VARIABLE, "all")
    saves = []
    stock = checkpoint_utils.torch_persistent_save.__wrapped__
    monkeypatch.setattr(checkpoint_utils, "torch_persistent_save", stock)
    monkeypatch.setattr(checkpoint_utils, "torch", torch)
    monkeypatch.setattr(compat, "_applied", {})
    with caplog.at_level(logging.INFO):
        compat.apply()
        saves.append(checkpoint_utils.torch_persistent_save)
        compat.apply()
        saves.append(checkpoint_utils.torch_persistent_save)
    assert saves[0] is saves[1] is not stock
    assert isinstance(checkpoint_utils.torch, ModuleProxy)
    assert checkpoint_utils.torch.load is not torch.load
    assert versions.summary() in caplog.text


def test_an_unknown_fairseq_costs_a_warning_only(monkeypatch, caplog):
    monkeypatch.delattr(checkpoint_utils, "torch_persistent_save")
    monkeypatch.setattr(compat, "PATCHES", ())
    with caplog.at_level(logging.WARNING):
        compat.apply()
    assert "checkpoints will not carry versions" in caplog.text
