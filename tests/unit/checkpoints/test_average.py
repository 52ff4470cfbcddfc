"""The averaging command: values, selection by file name, refusals, atomic writing."""

import argparse
import os

import numpy as np
import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint
from fairseq_plugins.checkpoints.average import average_checkpoints, select_best, select_last

MARKER = "frozen.0123abcd"


def model(seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(5, 3, generator=generator)
    half = torch.randn(4, generator=generator).half()
    return {
        "words.weight": words,
        "output.weight": words,  # tied
        "half": half,
        "steps": torch.tensor([3]),
        MARKER: torch.zeros(0),
    }


def write(path, tensors):
    extra = {"epoch": 2, "previous_training_time": 9, "ema": {"words.weight": torch.ones(5, 3)}}
    state = {
        "args": argparse.Namespace(arch="sga_tiny", maximize_best_checkpoint_metric=True),
        "model": tensors,
        "extra_state": extra,
    }
    torch.save({**state, "last_optimizer_state": {"exp_avg": torch.ones(3)}}, path)
    return path


def three(folder):
    return [write(folder / f"{seed}.pt", model(seed)) for seed in (1, 2, 3)]


def test_mean(tmp_path):
    state = average_checkpoints(three(tmp_path))
    actual, first = state["model"], model(1)
    assert set(actual) == set(first)
    for name in ("words.weight", "half"):
        values = np.stack([model(seed)[name].numpy().astype(np.float64) for seed in (1, 2, 3)])
        assert torch.equal(actual[name], torch.from_numpy(values.mean(0)).to(first[name].dtype))
        assert actual[name].dtype == first[name].dtype
    assert torch.equal(actual["steps"], first["steps"]) and actual[MARKER].shape == (0,)
    assert actual["output.weight"].data_ptr() == actual["words.weight"].data_ptr()  # still tied
    assert "last_optimizer_state" not in state
    assert state["extra_state"] == {"epoch": 2}
    assert state["args"].arch == "sga_tiny"


BAD = {
    "other frozen model": (
        lambda m: m.update({"frozen.ffff": m.pop(MARKER)}),
        r"only one has frozen\.0123abcd, frozen\.ffff",
    ),
    "missing": (lambda m: m.pop("half"), "only one has half"),
    "shape": (lambda m: m.update(half=torch.ones(5).half()), r"half is torch\.float16 \(5,\), but .* \(4,\)"),
    "dtype": (lambda m: m.update(half=torch.ones(4)), r"half is torch\.float32 \(4,\), but torch\.float16"),
    "integer": (lambda m: m.update(steps=torch.tensor([4])), r"steps is torch\.int64 and differs"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_models_that_cannot_be_averaged(tmp_path, case):
    change, message = BAD[case]
    other = model(2)
    change(other)
    paths = [write(tmp_path / "a.pt", model(1)), write(tmp_path / "b.pt", other)]
    with pytest.raises(CheckpointError, match=rf"b\.pt: .*{message}"):
        average_checkpoints(paths)


def names(paths):
    return [path.name for path in paths]


@pytest.mark.parametrize("as_cfg", [False, True])
@pytest.mark.parametrize("larger", [False, True])
def test_the_run_tells_whether_larger_is_better(tmp_path, larger, as_cfg):
    """COMET, log-likelihoods and correlations can be negative: -0.3 is more than -0.31, and less than 0.1 and 10."""
    chosen = {"maximize_best_checkpoint_metric": larger}
    stored = {"args": None, "cfg": {"checkpoint": chosen}} if as_cfg else {"args": argparse.Namespace(**chosen)}
    values = ("10.0011", "9.9992", "0.1", "-0.3000", "-0.3100", "-10.0")
    order = [f"checkpoint.best_de_comet_{value}.pt" for value in values]
    for name in (*order, "checkpoint_best.pt", "checkpoint3.pt", "checkpoint.best_de_comet_1.0-shard0.pt"):
        torch.save({"model": {}, **stored}, tmp_path / name)
    assert names(select_best(tmp_path, 5)) == (order if larger else order[::-1])[:5]
    torch.save({"model": {}, "cfg": {}}, tmp_path / "checkpoint.best_other_1.0.pt")
    assert names(select_best(tmp_path, 1, "de_comet")) == [order[0 if larger else -1]]
    with pytest.raises(CheckpointError, match=r"other_1\.0\.pt: its options lack maximize_best_checkpoint_metric"):
        select_best(tmp_path, 1, "other")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], r"--best 2: 0 files .*checkpoint\.best_"),
        (["score_1.0001"], r"--best 2: 1 files .*--allow-fewer"),
        (["loss_1.0", "bleu_1.0"], "has best checkpoints by bleu, loss; give one as --metric"),
        (None, "no such folder"),
    ],
)
def test_best_that_cannot_be_chosen(tmp_path, files, message):
    for name in files or ():
        write(tmp_path / f"checkpoint.best_{name}.pt", model(1))
    with pytest.raises(CheckpointError, match=message):
        select_best(tmp_path if files is not None else tmp_path / "absent", 2)


def test_last(tmp_path, caplog):
    for name in ("checkpoint2.pt", "checkpoint10.pt", "checkpoint9.pt", "checkpoint_last.pt"):
        (tmp_path / name).touch()
    assert names(select_last(tmp_path, 2)) == ["checkpoint10.pt", "checkpoint9.pt"]
    for name in ("checkpoint_1_900.pt", "checkpoint_2_1000.pt"):
        (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match="by epochs and by updates; give --by"):
        select_last(tmp_path, 2)
    assert names(select_last(tmp_path, 2, by="updates")) == ["checkpoint_2_1000.pt", "checkpoint_1_900.pt"]
    with pytest.raises(CheckpointError, match=r"--last 4: 3 files"):
        select_last(tmp_path, 4, by="epochs")
    assert len(select_last(tmp_path, 4, by="epochs", allow_fewer=True)) == 3
    assert "only 3 files" in caplog.text


@pytest.mark.parametrize(("options", "seeds"), [(["--last", "2"], (2, 3)), (["--best", "1", "--metric", "bleu"], (2,))])
def test_the_command_takes_what_its_options_choose(tmp_path, options, seeds):
    for name, seed in {"8": 1, "9": 2, "10": 3, ".best_bleu_1.0": 1, ".best_bleu_2.0": 2}.items():
        write(tmp_path / f"checkpoint{name}.pt", model(seed))
    write(tmp_path / "checkpoint.best_score_1.0.pt", model(1))
    assert main(["average", "--directory", str(tmp_path), "--output", str(tmp_path / "average.pt"), *options]) == 0
    expected = sum(model(seed)["words.weight"].double() for seed in seeds) / len(seeds)
    assert torch.equal(read_checkpoint(tmp_path / "average.pt")["model"]["words.weight"], expected.float())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--inputs {0}/1.pt --output {0}/1.pt", "is one of the inputs"),
        ("--inputs {0}/1.pt {0}/./1.pt --output {0}/a.pt", "given more than once: {0}/1.pt\n"),
        ("--inputs {0}/1.pt --output {0}/absent/a.pt", "valid: a file name in an existing folder"),
        ("--inputs {0}/1.pt --best 2 --output {0}/a.pt", "these only with --directory"),
        ("--directory {0} --output {0}/a.pt", "--directory goes with --best N or --last N"),
    ],
)
def test_command_refuses(tmp_path, capsys, line, message):
    three(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["average", *line.format(tmp_path).split()])
    assert stopped.value.code == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["1.pt", "2.pt", "3.pt"]
