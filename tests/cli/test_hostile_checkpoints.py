"""Checkpoints that try to run code by the options that they bring, under every command that reads one."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import pytest
import torch

from fairseq_plugins.analysis import language_distance
from fairseq_plugins.checkpoints import average, export
from fairseq_plugins.generators import sga_at_reranker

from .conftest import World

Run = Callable[..., Any]
SIZES = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--encoder-embed-dim", 16, "--decoder-embed-dim", 16),
    *(
        "--encoder-ffn-embed-dim",
        16,
        "--decoder-ffn-embed-dim",
        16,
        "--encoder-attention-heads",
        2,
        "--decoder-attention-heads",
        2,
    ),
]
SPEED = [
    "--max-update",
    1,
    "--max-tokens",
    400,
    "--optimizer",
    "adam",
    "--lr",
    0.001,
    "--num-workers",
    0,
    "--cpu",
    "--disable-validation",
]
CUTOFF = "adaptive_softmax_cutoff"


class Trained(NamedTuple):
    """Checkpoints of one update: stock's transformer, and a convolutional model with its layers as text."""

    transformer: Path
    fconv: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any, run_cli: Run, world: World, user_dir: str) -> Trained:
    root = tmp_path_factory.mktemp("hostile")

    def train(name: str, *arguments: Any) -> Path:
        run_cli("train", world.data, "--user-dir", user_dir, "--save-dir", root / name, *SPEED, *arguments)
        return root / name / "checkpoint_last.pt"

    layers = ["--encoder-layers", "[(16, 3)] * 2 + [(16, 3)]", "--decoder-layers", "[(16, 3)]"]
    widths = [part for name in ("encoder-", "decoder-", "decoder-out-") for part in (f"--{name}embed-dim", 16)]
    return Trained(
        train("transformer", "--arch", "transformer", *SIZES), train("fconv", "--arch", "fconv", *layers, *widths)
    )


def bait(marker: Path) -> str:
    """A text that creates a file when it is evaluated, and is a list of numbers then."""
    return f"[__import__('pathlib').Path({str(marker)!r}).touch() or 5]"


def changed(source: Path, target: Path, zipped: bool = True, **options: Any) -> Path:
    """A copy of a checkpoint in which the model's stored options have other values."""
    state = torch.load(source, weights_only=False)
    for name, value in options.items():
        vars(state["cfg"]["model"])[name] = value
    torch.save(state, target, _use_new_zipfile_serialization=zipped)
    return target


def commands(world: World, user_dir: str, file: Path) -> Dict[str, List[Any]]:
    """Everything that reads a checkpoint of a translation model."""
    plugins = ["--user-dir", user_dir, "--cpu"]
    decoding = [*plugins, "--max-len-b", 3, "--beam", 1]
    train = [
        "train",
        world.data,
        *plugins[:2],
        "--save-dir",
        file.parent / "run",
        "--arch",
        "transformer",
        *SIZES,
        *SPEED,
    ]
    return {
        "generate": ["generate", world.data, *decoding, "--path", file],
        "validate": ["validate", world.data, *plugins, "--task", "translation", "--path", file, "--max-tokens", 400],
        "--finetune-from-model": [*train, "--finetune-from-model", file],
    }


@pytest.mark.parametrize("entry", ["generate", "validate", "--finetune-from-model"])
def test_no_command_evaluates_a_stored_option(
    tmp_path: Path, run_cli: Run, world: World, trained: Trained, user_dir: str, entry: str
) -> None:
    marker = tmp_path / "ran"
    file = changed(trained.transformer, tmp_path / "model.pt", zipped=entry != "validate", **{CUTOFF: bait(marker)})
    done = run_cli(*commands(world, user_dir, file)[entry], stdin="a\n", check=False)
    assert done.returncode != 0
    assert f"cfg.model.{CUTOFF}" in done.stderr
    assert str(file) in done.stderr
    assert not marker.exists()


def test_texts_that_are_literals_decode(run_cli: Run, world: World, trained: Trained, user_dir: str) -> None:
    done = run_cli(*commands(world, user_dir, trained.fconv)["generate"])
    assert sum(line.startswith("H-") for line in done.stdout.splitlines()) == 12


def test_our_own_commands(tmp_path: Path, world: World, trained: Trained, capsys: pytest.CaptureFixture) -> None:
    """Also a folder that was changed after the export: its fingerprint covers the tensors, not the options."""
    marker, folder, made = tmp_path / "ran", tmp_path / "folder", tmp_path / "made.pt"
    file = changed(trained.transformer, tmp_path / "model.pt", **{CUTOFF: bait(marker)})
    export.main([str(trained.transformer), str(folder), "--data", str(world.data)])
    config = json.loads((folder / "config.json").read_text())
    config["cfg"]["model"][CUTOFF] = bait(marker)
    (folder / "config.json").write_text(json.dumps(config))
    texts = [
        part
        for side, lang in (("source", "en"), ("target", "de"))
        for part in (f"--{side}", str(world.root / f"test.{lang}"))
    ]
    texts += ["--source-lang", "en", "--target-lang", "de", "--sentencepiece", "none", "--cpu"]
    runs: List[Callable[[], Any]] = [
        lambda: export.main([str(file), str(tmp_path / "other")]),
        lambda: export.main(["import", str(folder), str(made)]),
        lambda: language_distance.main([str(file), *texts]),
        lambda: average.main(["--inputs", str(file), "--output", str(made)]),
    ]
    for run in runs:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run()
        assert caught.value.code not in (0, None)
        assert f"cfg.model.{CUTOFF}" in capsys.readouterr().err + str(caught.value.code)
    with pytest.raises(ValueError, match=f"cfg.model.{CUTOFF}"):
        sga_at_reranker.load_at([str(file)], "en-de", None)
    assert not marker.exists()
    assert not made.exists()


def test_a_stored_user_dir_is_not_imported(
    tmp_path: Path, run_cli: Run, world: World, trained: Trained, user_dir: str
) -> None:
    (tmp_path / "plugin_of_a_file").mkdir()
    (tmp_path / "plugin_of_a_file" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    state = torch.load(trained.transformer, weights_only=False)
    for section in ("common", "model"):
        owner = state["cfg"][section]
        (vars(owner) if hasattr(owner, "__dict__") else owner)["user_dir"] = str(tmp_path / "plugin_of_a_file")
    torch.save(state, tmp_path / "model.pt")
    run_cli(*commands(world, user_dir, tmp_path / "model.pt")["generate"])
    assert not (tmp_path / "ran").exists()
