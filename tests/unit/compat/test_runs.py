"""Patches that only whole runs show: stock commands on a tiny stock model, with the user dir."""

import fcntl
import shutil
import subprocess
import sys

import pytest
import torch

from fairseq_plugins.checkpoints import metadata
from tests import builders

pytestmark = pytest.mark.slow
TINY = "--arch transformer --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 8 --decoder-embed-dim 8 "
TINY += "--encoder-ffn-embed-dim 8 --decoder-ffn-embed-dim 8 --encoder-attention-heads 1 --decoder-attention-heads 1"
RUN = "--optimizer adam --lr 0.01 --batch-size 4 --num-workers 0 --log-format simple --seed 1 --cpu"

# Without the package: what anybody's fairseq makes of the file. Only options of argparse are allowed in it.
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
    for seed, split in enumerate(("train", "valid"), start=1):
        builders.write_pair(path, split, "de", "en", count=20, seed=seed)
        shutil.copy(path / f"{split}.de-en.de.bin", path / f"{split}.bin")  # of one language
        shutil.copy(path / f"{split}.de-en.de.idx", path / f"{split}.idx")
    shutil.copy(path / "dict.de.txt", path / "dict.txt")
    return path


@pytest.fixture(scope="module")
def train(folder, run_cli, user_dir):
    def run(name, *arguments, check=True, model=TINY):
        line = [folder, "--user-dir", user_dir, "--save-dir", folder / name, *RUN.split(), *model.split(), *arguments]
        done = run_cli("train", *line, check=check)
        file = folder / name / "checkpoint_last.pt"
        return done.stdout + done.stderr, torch.load(file, weights_only=False) if file.is_file() else None

    return run


def updates(state):
    return state["optimizer_history"][-1]["num_updates"]


def difference(one, other):
    """Greatest difference between two models' tensors."""
    return max(float((one["model"][name] - other["model"][name]).abs().max()) for name in one["model"])


def test_a_resumed_run_is_the_run(folder, train):
    _, whole = train("whole", "--max-epoch", 2)
    (folder / "parts").mkdir()
    shutil.copy(folder / "whole" / "checkpoint1.pt", folder / "parts" / "checkpoint_last.pt")
    _, parts = train("parts", "--max-epoch", 2)
    assert parts["extra_state"]["train_iterator"] == whole["extra_state"]["train_iterator"]
    assert difference(whole, parts) == 0.0


BART = TINY.replace("--arch transformer", "--arch bart_base") + " --max-source-positions 64 --max-target-positions 64"


def test_a_resumed_run_of_resampled_languages_is_the_run(folder, train):
    """Languages are drawn anew in every epoch, so the batches of the second one are those of its own lengths.

    Nothing is masked: stock draws that noise from torch's generator, which is at another place after a restart.
    """
    for language in ("de", "en"):
        (folder / language).mkdir()
        for split in ("train", "valid"):
            for end in ("bin", "idx"):
                shutil.copy(folder / f"{split}.de-en.{language}.{end}", folder / language / f"{split}.{end}")
    line = """--task multilingual_denoising --langs de,en --multilang-sampling-alpha 0.3 --tokens-per-sample 32 --mask 0
        --sample-break-mode eos --replace-length 1 --disable-validation
        --max-tokens 40 --save-interval-updates 1 --max-epoch 2""".split()
    _, whole = train("drawn", *line, model=BART)
    last = updates(whole)
    (folder / "again").mkdir()
    shutil.copy(folder / "drawn" / f"checkpoint_2_{last - 1}.pt", folder / "again" / "checkpoint_last.pt")
    _, parts = train("again", *line, model=BART)
    assert updates(parts) == last and difference(whole, parts) == 0.0


def test_workers_draw_the_noise_of_the_epoch(train):
    line = """--task masked_lm --criterion masked_lm --mask-prob 0.5 --tokens-per-sample 16 --sample-break-mode complete
        --max-epoch 2 --disable-validation --num-workers""".split()
    model = "--arch roberta_base --encoder-layers 1 --encoder-embed-dim 8 --encoder-ffn-embed-dim 8 --encoder-attention-heads 1"
    states = [train(f"masked{workers}", *line, workers, model=model)[1] for workers in (0, 1)]
    assert difference(*states) == 0.0


def test_a_run_that_has_ended_does_nothing_and_a_lock_keeps_others_out(folder, train):
    (folder / "ended").mkdir()
    (folder / "ended" / "dummy").touch()  # stock removes such a file
    ends = ["--patience", 1, "--lr", 0, "--max-epoch", 9]
    assert updates(train("ended", *ends)[1]) == 10
    log, state = train("ended", *ends)
    assert "has ended before: 1 validations without a better result" in log
    assert updates(state) == 10
    log, state = train("ended", "--max-update", 10)
    assert "10 updates, --max-update 10" in log and updates(state) == 10
    with open(folder / "ended" / ".training.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        log, state = train("ended", "--max-update", 12, check=False)
        assert "another training run writes there" in log and updates(state) == 10
        assert train("ended", "--max-update", 1, "--no-save", check=False)[0].count("another training run") == 0
    assert (folder / "ended" / "dummy").exists()
    log, _ = train("missing", "--max-update", 1, "--restore-file", "none.pt", check=False)
    assert "--restore-file none.pt: no such file" in log


def test_an_empty_line_stays_empty(folder, train, run_cli, user_dir):
    train("model", "--max-update", 1)
    line = [folder, "--user-dir", user_dir, "--path", folder / "model" / "checkpoint_last.pt", "--cpu"]
    line += ["--beam", 1, "-s", "de", "-t", "en", "--max-len-b", 3, "--buffer-size", 3, "--batch-size", 3]
    answers = run_cli("interactive", *line, stdin="\np1 p2\n \n").stdout.splitlines()
    texts = {name: text for name, _, text in (row.split("\t") for row in answers if row.startswith("H-"))}
    assert (texts["H-0"], texts["H-2"]) == ("", "") and texts["H-1"]


def test_checkpoints_of_a_stock_run_carry_versions_and_are_stock(folder, train):
    """Said once; in every file, beside moving averages; read by a fairseq without the package."""
    log, _ = train("stamped", "--max-epoch", 1, "--store-ema")
    assert log.count(metadata.summary()) == 1
    for name in ("checkpoint1", "checkpoint_best", "checkpoint_last"):
        content = torch.load(folder / "stamped" / f"{name}.pt", weights_only=False)
        assert content[metadata.VERSIONS] == metadata.stamp()
        assert content["extra_state"]["ema"].keys() == content["model"].keys()
    (folder / "stock.py").write_text(STOCK)
    line = [sys.executable, str(folder / "stock.py"), str(folder / "stamped" / "checkpoint_last.pt")]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["TransformerModel"], done.stderr[-2000:]
