"""Checkpoints that try to run code by the options that they bring, under every command that reads one."""

import json

import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.sga.extensions import reranking as sga_at_reranker

from .commands import checkpoint, transformer

SPEED = "--max-update 1 --max-tokens 400 --disable-validation"
CUTOFF = "adaptive_softmax_cutoff"


@pytest.fixture(scope="module")
def trained(path, train, world):
    train(world.data, path, f"{SPEED} --arch transformer", *transformer())
    return path / "checkpoint_last.pt"


def bait(marker):
    """A text that creates a file when it is evaluated, and is a list of numbers then."""
    return f"[__import__('pathlib').Path({str(marker)!r}).touch() or 5]"


def changed(source, target, zipped=True, **options):
    """A copy of a checkpoint in which the model's stored options have other values."""
    state = checkpoint(source)
    vars(state["cfg"]["model"]).update(options)
    torch.save(state, target, _use_new_zipfile_serialization=zipped)
    return target


@pytest.mark.parametrize("entry", ["generate", "validate", "train"])
def test_no_command_evaluates_a_stored_option(tmp_path, decode, train, world, trained, entry):
    marker = tmp_path / "ran"
    file = changed(trained, tmp_path / "model.pt", zipped=entry != "validate", **{CUTOFF: bait(marker)})
    if entry == "train":
        line = f"{SPEED} --arch transformer --finetune-from-model {file}"
        done = train(world.data, tmp_path / "run", line, *transformer(), check=False)
    else:
        done = decode(world.data, file, "--task translation --max-tokens 400", command=entry, check=False)
    assert done.returncode != 0
    assert f"cfg.model.{CUTOFF}" in done.stderr and str(file) in done.stderr
    assert not marker.exists()


def test_our_own_commands(tmp_path, world, trained, capsys):
    """Also a folder that was changed after the export: its fingerprint covers the tensors, not the options."""
    marker, folder, made = tmp_path / "ran", tmp_path / "folder", tmp_path / "made.pt"
    file = changed(trained, tmp_path / "model.pt", **{CUTOFF: bait(marker)})
    main(["export", "--format", "safetensors", str(trained), str(folder), "--data", str(world.data)])
    config = json.loads((folder / "config.json").read_text())
    config["cfg"]["model"][CUTOFF] = bait(marker)
    (folder / "config.json").write_text(json.dumps(config))
    texts = f"""--source {world.root / "test.en"} --target {world.root / "test.de"} --source-lang en --target-lang de
        --sentencepiece none --cpu"""
    for line in (
        f"export --format safetensors {file} {tmp_path / 'other'}",
        f"import {folder} {made}",
        f"language-distance {file} {texts}",
        f"average --inputs {file} --output {made}",
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(line.split())
        assert caught.value.code not in (0, None)
        assert f"cfg.model.{CUTOFF}" in capsys.readouterr().err + str(caught.value.code)
    with pytest.raises(ValueError, match=f"cfg.model.{CUTOFF}"):
        sga_at_reranker.load_autoregressive([str(file)], "en-de", None)
    assert not marker.exists() and not made.exists()


def test_a_stored_user_dir_is_not_imported(tmp_path, world, decode, trained):
    (tmp_path / "plugin_of_a_file").mkdir()
    (tmp_path / "plugin_of_a_file" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    state = checkpoint(trained)
    for section in ("common", "model"):
        owner = state["cfg"][section]
        (vars(owner) if hasattr(owner, "__dict__") else owner)["user_dir"] = str(tmp_path / "plugin_of_a_file")
    torch.save(state, tmp_path / "model.pt")
    decode(world.data, tmp_path / "model.pt", "--max-len-b 3 --beam 1")
    assert not (tmp_path / "ran").exists()
