"""Test patches that only real runs show: stock commands on a tiny stock model."""

import fcntl
import shutil
import subprocess
import sys

import pytest
import torch

from fairseq_plugins.checkpoints import metadata
from tests import builders

pytestmark = pytest.mark.slow
SIZES = [f"--{side}-layers 1 --{side}-embed-dim 8" for side in ("encoder", "decoder")]
SIZES += [f"--{side}-ffn-embed-dim 8 --{side}-attention-heads 1" for side in ("encoder", "decoder")]
TINY = f"--arch transformer {' '.join(SIZES)}"
BART = TINY.replace("--arch transformer", "--arch bart_base")
BART += " --max-source-positions 64 --max-target-positions 64"
ROBERTA = "--arch roberta_base --encoder-layers 1 --encoder-embed-dim 8 --encoder-ffn-embed-dim 8"
ROBERTA += " --encoder-attention-heads 1"
RUN = "--optimizer adam --lr 0.01 --batch-size 4 --num-workers 0 --log-format simple --seed 1 --cpu"

# A program of a user who has fairseq without the package and allows options of argparse.
STOCK = """
import argparse, sys, torch
from fairseq import checkpoint_utils
torch.serialization.add_safe_globals([argparse.Namespace])
models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([sys.argv[1]])
assert "fairseq_plugins" not in sys.modules
print(type(models[0]).__name__)
"""


@pytest.fixture(scope="module")
def folder(path):
    """Write a data-bin of a pair, and its German side as text of one language."""
    for seed, split in enumerate(("train", "valid"), start=1):
        builders.write_pair(path, split, "de", "en", count=20, seed=seed)
        for ending in ("bin", "idx"):
            shutil.copy(path / f"{split}.de-en.de.{ending}", path / f"{split}.{ending}")
    shutil.copy(path / "dict.de.txt", path / "dict.txt")
    return path


@pytest.fixture(scope="module")
def train(folder, run_cli, user_dir):
    """Return a function that trains, and returns the log and the newest checkpoint."""

    def run(name, options, check=True, model=TINY):
        line = f"{folder} --user-dir {user_dir} --save-dir {folder / name} {RUN} {model} {options}"
        process = run_cli("train", *line.split(), check=check)
        file = folder / name / "checkpoint_last.pt"
        state = torch.load(file, weights_only=False) if file.is_file() else None
        return process.stdout + process.stderr, state

    return run


def start_from(folder, run, name, checkpoint):
    """Make a folder of a run that was stopped after a checkpoint of another run."""
    (folder / name).mkdir()
    shutil.copy(folder / run / checkpoint, folder / name / "checkpoint_last.pt")


def updates(state):
    return state["optimizer_history"][-1]["num_updates"]


def assert_same_model(state, expected):
    for name, tensor in expected["model"].items():
        assert torch.equal(state["model"][name], tensor), name


def test_a_resumed_run_equals_an_uninterrupted_one(folder, train):
    _, expected = train("uninterrupted", "--max-epoch 2")
    start_from(folder, "uninterrupted", "resumed", "checkpoint1.pt")
    _, resumed = train("resumed", "--max-epoch 2")
    iterators = [state["extra_state"]["train_iterator"] for state in (resumed, expected)]
    assert iterators[0] == iterators[1]
    assert_same_model(resumed, expected)


def test_a_resumed_run_of_resampled_languages_equals_an_uninterrupted_one(folder, train):
    """Languages are drawn in every epoch, so batches of the second have its own lengths.

    Nothing is masked: stock draws that noise from torch's generator, which a restart does not
    restore.
    """
    for language in ("de", "en"):
        (folder / language).mkdir()
        for split in ("train", "valid"):
            for end in ("bin", "idx"):
                source = folder / f"{split}.de-en.{language}.{end}"
                shutil.copy(source, folder / language / f"{split}.{end}")
    line = """--task multilingual_denoising --langs de,en --multilang-sampling-alpha 0.3 --mask 0
        --tokens-per-sample 32 --sample-break-mode eos --replace-length 1 --disable-validation
        --max-tokens 40 --save-interval-updates 1 --max-epoch 2"""
    _, expected = train("resampled", line, model=BART)
    last = updates(expected)
    start_from(folder, "resampled", "resampled-again", f"checkpoint_2_{last - 1}.pt")
    _, resumed = train("resampled-again", line, model=BART)
    assert updates(resumed) == last
    assert_same_model(resumed, expected)


def test_workers_draw_the_noise_of_the_epoch(train):
    line = """--task masked_lm --criterion masked_lm --mask-prob 0.5 --tokens-per-sample 16
        --sample-break-mode complete --max-epoch 2 --disable-validation --num-workers"""
    _, expected = train("masked0", f"{line} 0", model=ROBERTA)
    _, with_worker = train("masked1", f"{line} 1", model=ROBERTA)
    assert_same_model(with_worker, expected)


def test_an_ended_or_locked_run_does_nothing(folder, train):
    run = folder / "ended"
    run.mkdir()
    (run / "dummy").touch()  # stock removes such a file
    ends = "--patience 1 --lr 0 --max-epoch 9"
    assert updates(train("ended", ends)[1]) == 10
    for options, reason in (
        (ends, "1 validations without a better result"),
        ("--max-update 10", "10 updates, --max-update 10"),
    ):
        log, state = train("ended", options)
        assert reason in log and updates(state) == 10
    with open(run / ".training.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        log, state = train("ended", "--max-update 12", check=False)
        assert "another training run" in log and updates(state) == 10
        log, _ = train("ended", "--max-update 1 --no-save", check=False)
        assert "another training run" not in log
    assert (run / "dummy").exists()
    log, _ = train("missing", "--max-update 1 --restore-file none.pt", check=False)
    assert "--restore-file none.pt: no such file" in log


def test_an_empty_line_stays_empty(folder, train, run_cli, user_dir):
    train("model", "--max-update 1")
    line = f"{folder} --user-dir {user_dir} --path {folder}/model/checkpoint_last.pt --cpu --beam 1"
    line += " -s de -t en --max-len-b 3 --buffer-size 3 --batch-size 3"
    output = run_cli("interactive", *line.split(), stdin="\np1 p2\n \n").stdout.splitlines()
    rows = [row.split("\t") for row in output if row.startswith("H-")]
    texts = {name: text for name, _, text in rows}
    assert (texts["H-0"], texts["H-2"]) == ("", "") and texts["H-1"]


def test_checkpoints_of_a_stock_run_have_versions_and_are_read_by_stock_fairseq(folder, train):
    log, _ = train("stamped", "--max-epoch 1 --store-ema")
    assert log.count(metadata.summary()) == 1
    for name in ("checkpoint1", "checkpoint_best", "checkpoint_last"):
        content = torch.load(folder / "stamped" / f"{name}.pt", weights_only=False)
        assert content[metadata.VERSIONS] == metadata.stamp()
        assert content["extra_state"]["ema"].keys() == content["model"].keys()
    (folder / "stock.py").write_text(STOCK)
    line = [sys.executable, str(folder / "stock.py"), f"{folder}/stamped/checkpoint_last.pt"]
    process = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert process.stdout.splitlines()[-1:] == ["TransformerModel"], process.stderr[-2000:]
