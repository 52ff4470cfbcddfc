"""Test checkpoints whose stored options try to run code, under every command that reads one."""

import json

import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.sga.extensions import reranking

from .commands import checkpoint, transformer

SPEED = "--max-update 1 --max-tokens 400 --disable-validation"
CUTOFF = "adaptive_softmax_cutoff"


@pytest.fixture(scope="module")
def trained(path, train, world):
    train(world.data, path, f"{SPEED} --arch transformer", *transformer())
    return path / "checkpoint_last.pt"


def bait(marker):
    """Return an expression that creates a file when evaluated, and then is a list of numbers."""
    return f"[__import__('pathlib').Path({str(marker)!r}).touch() or 5]"


def write_bait(source, target, marker, zipped=True):
    """Copy a checkpoint with the bait as one of the model's stored options."""
    state = checkpoint(source)
    setattr(state["cfg"]["model"], CUTOFF, bait(marker))
    torch.save(state, target, _use_new_zipfile_serialization=zipped)
    return target


@pytest.mark.parametrize("command", ["generate", "validate", "train"])
def test_no_stock_command_evaluates_a_stored_option(
    tmp_path, decode, train, world, trained, command
):
    marker, file = tmp_path / "ran", tmp_path / "model.pt"
    write_bait(trained, file, marker, zipped=command != "validate")
    if command == "train":
        line = f"{SPEED} --arch transformer --finetune-from-model {file}"
        process = train(world.data, tmp_path / "run", line, *transformer(), check=False)
    else:
        line = "--task translation --max-tokens 400"
        process = decode(world.data, file, line, command=command, check=False)
    assert process.returncode != 0
    assert f"cfg.model.{CUTOFF}" in process.stderr
    assert str(file) in process.stderr
    assert not marker.exists()


def test_no_plugin_command_evaluates_a_stored_option(tmp_path, world, trained, capsys):
    """Also in a folder changed after its export: the fingerprint covers only the tensors."""
    marker, folder, output = tmp_path / "ran", tmp_path / "folder", tmp_path / "output.pt"
    file = write_bait(trained, tmp_path / "model.pt", marker)
    export = ["export", "--format", "safetensors"]
    main([*export, str(trained), str(folder), "--data", str(world.data)])
    config = json.loads((folder / "config.json").read_text())
    config["cfg"]["model"][CUTOFF] = bait(marker)
    (folder / "config.json").write_text(json.dumps(config))
    texts = f"""--source {world.root / "test.en"} --target {world.root / "test.de"}
        --source-lang en --target-lang de --sentencepiece none --cpu"""
    for line in (
        f"export --format safetensors {file} {tmp_path / 'exported'}",
        f"import {folder} {output}",
        f"language-distance {file} {texts}",
        f"average --inputs {file} --output {output}",
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(line.split())
        assert caught.value.code not in (0, None)
        assert f"cfg.model.{CUTOFF}" in capsys.readouterr().err + str(caught.value.code)
    with pytest.raises(ValueError, match=f"cfg.model.{CUTOFF}"):
        reranking.load_autoregressive([str(file)], "en-de", None)
    assert not marker.exists()
    assert not output.exists()


def test_a_stored_user_dir_is_not_imported(tmp_path, world, decode, trained):
    plugin, marker = tmp_path / "plugin_of_a_file", tmp_path / "ran"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    state = checkpoint(trained)
    for section in ("common", "model"):
        options = state["cfg"][section]
        if hasattr(options, "__dict__"):
            options = vars(options)
        options["user_dir"] = str(plugin)
    torch.save(state, tmp_path / "model.pt")
    decode(world.data, tmp_path / "model.pt", "--max-len-b 3 --beam 1")
    assert not marker.exists()
