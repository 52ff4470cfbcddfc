"""Checkpoints that try to run code by the options that they bring, under every command that reads one."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from fairseq_plugins.analysis import language_distance
from fairseq_plugins.checkpoints import average, export
from fairseq_plugins.generators import sga_at_reranker

from .commands import checkpoint, hypotheses, transformer

SPEED = "--max-update 1 --max-tokens 400 --optimizer adam --lr 0.001 --num-workers 0 --cpu --disable-validation".split()
CUTOFF = "adaptive_softmax_cutoff"


class Trained(NamedTuple):
    """Checkpoints of one update: stock's transformer, and a convolutional model with its layers as text."""

    transformer: Path
    fconv: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_cli, world, user_dir):
    root = tmp_path_factory.mktemp("hostile")

    def train(name, *arguments):
        run_cli("train", world.data, "--user-dir", user_dir, "--save-dir", root / name, *SPEED, *arguments)
        return root / name / "checkpoint_last.pt"

    layers = ["--encoder-layers", "[(16, 3)] * 2 + [(16, 3)]", "--decoder-layers", "[(16, 3)]"]
    widths = [f"--{name}embed-dim=16" for name in ("encoder-", "decoder-", "decoder-out-")]
    stock = train("transformer", "--arch", "transformer", *transformer())
    return Trained(stock, train("fconv", "--arch", "fconv", *layers, *widths))


def bait(marker):
    """A text that creates a file when it is evaluated, and is a list of numbers then."""
    return f"[__import__('pathlib').Path({str(marker)!r}).touch() or 5]"


def changed(source, target, zipped=True, **options):
    """A copy of a checkpoint in which the model's stored options have other values."""
    state = checkpoint(source)
    vars(state["cfg"]["model"]).update(options)
    torch.save(state, target, _use_new_zipfile_serialization=zipped)
    return target


def commands(world, user_dir, file):
    """Everything that reads a checkpoint of a translation model."""
    line = f"{world.data} --user-dir {user_dir} --cpu".split()
    train = [*line, "--save-dir", file.parent / "run", "--arch", "transformer", *transformer(), *SPEED]
    return {
        "generate": ["generate", *line, "--max-len-b", 3, "--beam", 1, "--path", file],
        "validate": ["validate", *line, "--task", "translation", "--path", file, "--max-tokens", 400],
        "--finetune-from-model": ["train", *train, "--finetune-from-model", file],
    }


@pytest.mark.parametrize("entry", ["generate", "validate", "--finetune-from-model"])
def test_no_command_evaluates_a_stored_option(tmp_path, run_cli, world, trained, user_dir, entry):
    marker = tmp_path / "ran"
    file = changed(trained.transformer, tmp_path / "model.pt", zipped=entry != "validate", **{CUTOFF: bait(marker)})
    done = run_cli(*commands(world, user_dir, file)[entry], stdin="a\n", check=False)
    assert done.returncode != 0
    assert f"cfg.model.{CUTOFF}" in done.stderr and str(file) in done.stderr
    assert not marker.exists()


def test_texts_that_are_literals_decode(run_cli, world, trained, user_dir):
    assert len(hypotheses(run_cli(*commands(world, user_dir, trained.fconv)["generate"]), "H")) == 12


def test_our_own_commands(tmp_path, world, trained, capsys):
    """Also a folder that was changed after the export: its fingerprint covers the tensors, not the options."""
    marker, folder, made = tmp_path / "ran", tmp_path / "folder", tmp_path / "made.pt"
    file = changed(trained.transformer, tmp_path / "model.pt", **{CUTOFF: bait(marker)})
    export.main([str(trained.transformer), str(folder), "--data", str(world.data)])
    config = json.loads((folder / "config.json").read_text())
    config["cfg"]["model"][CUTOFF] = bait(marker)
    (folder / "config.json").write_text(json.dumps(config))
    texts = f"""--source {world.root / "test.en"} --target {world.root / "test.de"} --source-lang en --target-lang de
        --sentencepiece none --cpu""".split()
    runs = [
        (export.main, [str(file), str(tmp_path / "other")]),
        (export.main, ["import", str(folder), str(made)]),
        (language_distance.main, [str(file), *texts]),
        (average.main, ["--inputs", str(file), "--output", str(made)]),
    ]
    for main, arguments in runs:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code not in (0, None)
        assert f"cfg.model.{CUTOFF}" in capsys.readouterr().err + str(caught.value.code)
    with pytest.raises(ValueError, match=f"cfg.model.{CUTOFF}"):
        sga_at_reranker.load_at([str(file)], "en-de", None)
    assert not marker.exists() and not made.exists()


def test_a_stored_user_dir_is_not_imported(tmp_path, run_cli, world, trained, user_dir):
    (tmp_path / "plugin_of_a_file").mkdir()
    (tmp_path / "plugin_of_a_file" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    state = checkpoint(trained.transformer)
    for section in ("common", "model"):
        owner = state["cfg"][section]
        (vars(owner) if hasattr(owner, "__dict__") else owner)["user_dir"] = str(tmp_path / "plugin_of_a_file")
    torch.save(state, tmp_path / "model.pt")
    run_cli(*commands(world, user_dir, tmp_path / "model.pt")["generate"])
    assert not (tmp_path / "ran").exists()
