"""The averaging command: values, selection by file name, refusals, atomic writing."""

import argparse
import os
import shutil

import numpy as np
import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, average, read_checkpoint
from fairseq_plugins.checkpoints.average import average_checkpoints, main, select_best, select_last

MARKER = "frozen.0123abcd"


def _model(seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(5, 3, generator=generator)
    return {
        "words.weight": words,
        "output.weight": words,  # tied
        "half": torch.randn(4, generator=generator).half(),
        "steps": torch.tensor([3]),
        MARKER: torch.zeros(0),
    }


def _write(path, model, **entries):
    saved = {
        "args": argparse.Namespace(arch="sga_tiny"),
        "model": model,
        "optimizer_history": [{"num_updates": 3}],
        "last_optimizer_state": {"exp_avg": torch.ones(3)},
        "extra_state": {"epoch": 2, "previous_training_time": 9, "ema": {"words.weight": torch.ones(5, 3)}},
    }
    torch.save({**saved, **entries}, path)
    return path


def _three(folder):
    return [_write(folder / f"{seed}.pt", _model(seed)) for seed in (1, 2, 3)]


def test_mean(tmp_path):
    state = average_checkpoints(_three(tmp_path))
    assert set(state["model"]) == set(_model(1))
    for name in ("words.weight", "half"):
        values = np.stack([_model(seed)[name].numpy().astype(np.float64) for seed in (1, 2, 3)])
        expected = torch.from_numpy(values.mean(0)).to(_model(1)[name].dtype)
        assert torch.equal(state["model"][name], expected)
        assert state["model"][name].dtype == _model(1)[name].dtype
    assert torch.equal(state["model"]["steps"], torch.tensor([3]))
    assert state["model"][MARKER].shape == (0,)
    assert state["model"]["output.weight"].data_ptr() == state["model"]["words.weight"].data_ptr()  # still tied
    assert "last_optimizer_state" not in state
    assert state["extra_state"] == {"epoch": 2}
    assert state["args"].arch == "sga_tiny"


def test_one_and_equal_files_give_the_same_bits(tmp_path):
    same = [_write(tmp_path / f"{index}.pt", _model(1)) for index in range(3)]
    for paths in (same[:1], same):
        averaged = average_checkpoints(paths)["model"]
        assert all(torch.equal(averaged[name], tensor) for name, tensor in _model(1).items())


def test_tie_that_only_the_first_file_has(tmp_path):
    untied = {**_model(2), "output.weight": torch.ones(5, 3)}
    paths = [_write(tmp_path / "a.pt", _model(1)), _write(tmp_path / "b.pt", untied)]
    averaged = average_checkpoints(paths)["model"]
    assert torch.equal(averaged["output.weight"], ((_model(1)["output.weight"].double() + 1) / 2).float())


BAD = {
    "other_frozen_model": (
        lambda m: m.update({"frozen.ffff": m.pop(MARKER)}),
        r"only one of them has frozen\.0123abcd, frozen\.ffff",
    ),
    "missing": (lambda m: m.pop("half"), "only one of them has half"),
    "shape": (lambda m: m.update(half=torch.ones(5).half()), r"half is torch\.float16 \(5,\), but .* \(4,\)"),
    "dtype": (lambda m: m.update(half=torch.ones(4)), r"half is torch\.float32 \(4,\), but torch\.float16"),
    "integer": (lambda m: m.update(steps=torch.tensor([4])), r"steps is torch\.int64 and differs"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_models_that_cannot_be_averaged(tmp_path, case):
    change, message = BAD[case]
    other = _model(2)
    change(other)
    paths = [_write(tmp_path / "a.pt", _model(1)), _write(tmp_path / "b.pt", other)]
    with pytest.raises(CheckpointError, match=rf"b\.pt: .*{message}"):
        average_checkpoints(paths)


def test_inputs_that_cannot_be_used(tmp_path):
    path = _write(tmp_path / "a.pt", _model(1))
    with pytest.raises(CheckpointError, match=r"--inputs: given more than once: .*a\.pt"):
        average_checkpoints([path, tmp_path / "." / "a.pt"])
    with pytest.raises(CheckpointError, match="at least one"):
        average_checkpoints([])
    torch.save({"weights": {}}, tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match=r"b\.pt: expected an entry 'model' with tensors, found weights"):
        average_checkpoints([tmp_path / "b.pt"])


def _touch(folder, *names):
    for name in names:
        (folder / name).touch()


def _names(paths):
    return [path.name for path in paths]


def test_best_by_loss_and_by_bleu(tmp_path):
    _touch(tmp_path, *(f"checkpoint.best_nll_loss_{value}.pt" for value in ("3.4560", "10.0011", "3.0124", "9.9992")))
    _touch(
        tmp_path, "checkpoint_best.pt", "checkpoint_last.pt", "checkpoint3.pt", "checkpoint.best_nll_loss_1.0-shard0.pt"
    )
    best = [f"checkpoint.best_nll_loss_{value}.pt" for value in ("3.0124", "3.4560", "9.9992")]
    assert _names(select_best(tmp_path, 3)) == best
    _touch(tmp_path, *(f"checkpoint.best_bleu_{value}.pt" for value in ("9.5001", "31.2000", "30.1004")))
    assert _names(select_best(tmp_path, 2, metric="bleu")) == [
        "checkpoint.best_bleu_31.2000.pt",
        "checkpoint.best_bleu_30.1004.pt",
    ]
    assert _names(select_best(tmp_path, 1, metric="bleu", maximize=False)) == ["checkpoint.best_bleu_9.5001.pt"]


LOWER = "loss nll_loss ppl perplexity nll wer cer ter WER".split()
HIGHER = (
    "bleu chrf chrf2 rouge1 rouge2 rougel meteor comet accuracy acc f1 recall precision de_comet valid_BLEU".split()
)


@pytest.mark.parametrize(("metric", "larger"), [*((name, False) for name in LOWER), *((name, True) for name in HIGHER)])
def test_the_best_of_each_metric(tmp_path, metric, larger):
    """COMET, log-likelihoods and correlations can be negative: -0.3 is more than -0.31, and less than 0.1."""
    values = ("-0.3100", "-0.3000", "-10.0000", "0.1000")
    _touch(tmp_path, *(f"checkpoint.best_{metric}_{value}.pt" for value in values))
    order = ("0.1000", "-0.3000", "-0.3100", "-10.0000")
    expected = [f"checkpoint.best_{metric}_{value}.pt" for value in (order if larger else order[::-1])]
    assert _names(select_best(tmp_path, 4)) == expected


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ([], {}, r"--best 2: 0 files .*checkpoint\.best_"),
        (["score_1.0001", "score_2.0"], {}, "--metric score: larger or smaller is better"),
        (["score_1.0001"], {"maximize": True}, r"--best 2: 1 files .*--allow-fewer"),
        (["loss_1.0"], {"count": 0}, "--best 0: expected at least 1"),
        (["loss_1.0"], {"metric": "bleu"}, "--best 2: 0 files .*best_bleu"),
        (["loss_1.0", "bleu_1.0"], {}, "has best checkpoints by bleu, loss; give one as --metric"),
        (None, {}, "no such folder"),
    ],
)
def test_best_that_cannot_be_chosen(tmp_path, files, options, message):
    _touch(tmp_path, *(f"checkpoint.best_{name}.pt" for name in files or ()))
    folder = tmp_path if files is not None else tmp_path / "absent"
    with pytest.raises(CheckpointError, match=message):
        select_best(folder, **{"count": 2, **options})


def test_fewer_than_asked_for(tmp_path, caplog):
    _touch(tmp_path, "checkpoint.best_score_1.0001.pt")
    assert len(select_best(tmp_path, 2, maximize=True, allow_fewer=True)) == 1
    assert "only 1 files" in caplog.text


def test_last(tmp_path):
    _touch(tmp_path, "checkpoint2.pt", "checkpoint10.pt", "checkpoint9.pt", "checkpoint_last.pt")
    assert _names(select_last(tmp_path, 2)) == ["checkpoint10.pt", "checkpoint9.pt"]
    _touch(tmp_path, "checkpoint_1_900.pt", "checkpoint_2_1000.pt")
    with pytest.raises(CheckpointError, match="by epochs and by updates; give --by"):
        select_last(tmp_path, 2)
    assert _names(select_last(tmp_path, 2, by="updates")) == ["checkpoint_2_1000.pt", "checkpoint_1_900.pt"]
    with pytest.raises(CheckpointError, match=r"--last 4: 3 files .*checkpointN\.pt"):
        select_last(tmp_path, 4, by="epochs")


def test_command(tmp_path, run_cli):
    inputs = _three(tmp_path)
    for epoch, path in enumerate(inputs, start=9):
        shutil.copy(path, tmp_path / f"checkpoint{epoch}.pt")
    output = tmp_path / "average.pt"
    arguments = ["--directory", tmp_path, "--last", 2, "--output", output]
    done = run_cli("fairseq_plugins.checkpoints.average", *arguments)
    assert "read 2 of 2" in done.stderr
    assert "dropped: last_optimizer_state, ema, previous_training_time" in done.stderr
    assert "RuntimeWarning" not in done.stderr  # the package must not import the command
    expected = average_checkpoints(inputs[1:])["model"]["words.weight"]
    assert torch.equal(read_checkpoint(output)["model"]["words.weight"], expected)


def test_command_takes_metric_and_direction(tmp_path):
    for metric, values in {"bleu": (1, 2), "score": (3, 1)}.items():
        for value in values:
            _write(tmp_path / f"checkpoint.best_{metric}_{value}.0.pt", _model(value))
    output = tmp_path / "average.pt"
    for metric, options, seed in ("bleu", [], 2), ("score", ["--maximize"], 3), ("score", ["--minimize"], 1):
        options = ["--metric", metric, *options]
        assert main(["--directory", str(tmp_path), "--best", "1", "--output", str(output), *options]) == 0
        assert torch.equal(read_checkpoint(output)["model"]["words.weight"], _model(seed)["words.weight"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--inputs", "{0}/1.pt", "--output", "{0}/1.pt"], "is one of the inputs"),
        (["--inputs", "{0}/1.pt", "--output", "{0}/absent/a.pt"], "expected a file name in an existing folder"),
        (["--inputs", "{0}/absent.pt", "--output", "{0}/a.pt"], "absent.pt: no such file"),
        (["--inputs", "{0}/1.pt", "--best", "2", "--output", "{0}/a.pt"], "these only with --directory"),
        (["--directory", "{0}", "--output", "{0}/a.pt"], "--directory goes with --best N or --last N"),
        (["--directory", "{0}", "--last", "2", "--output", "{0}/a.pt"], "--last 2: 0 files"),
        (["--output", "{0}/a.pt"], "one of the arguments --inputs --directory is required"),
    ],
)
def test_command_refuses(tmp_path, capsys, line, message):
    _three(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([part.format(tmp_path) for part in line])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["1.pt", "2.pt", "3.pt"]


def _write_then_fail(saved, file):
    file.write(b"half a checkpoint")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("failing", ["torch.save", "os.fsync", "os.replace"])
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    inputs, output = _three(tmp_path), tmp_path / "average.pt"
    output.write_bytes(b"the previous one")

    def full(*args):
        raise OSError(28, "No space left on device")

    replacement = _write_then_fail if failing == "torch.save" else full
    with monkeypatch.context() as patch:
        patch.setattr(failing, replacement)
        with pytest.raises(OSError, match="No space left"):
            average.write_average(inputs, output)
    assert output.read_bytes() == b"the previous one"
    assert sorted(os.listdir(tmp_path)) == ["1.pt", "2.pt", "3.pt", "average.pt"]
