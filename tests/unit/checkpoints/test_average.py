"""Test the averaging command: values, choice of files, refusals, ties."""

import argparse

import numpy as np
import pytest
import torch

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint
from fairseq_plugins.checkpoints.average import average_checkpoints, select_best, select_last

MARKER = "frozen.0123abcd"


def model(seed):
    """Build a model entry with tied, half-precision, integer and empty tensors."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(5, 3, generator=generator)
    return {
        "words.weight": words,
        "output.weight": words,
        "half": torch.randn(4, generator=generator).half(),
        "steps": torch.tensor([3]),
        MARKER: torch.zeros(0),
    }


def write(path, tensors):
    """Write a checkpoint with an optimizer and moving averages."""
    options = argparse.Namespace(arch="sga_tiny", maximize_best_checkpoint_metric=True)
    extra = {"epoch": 2, "previous_training_time": 9, "ema": {"words.weight": torch.ones(5, 3)}}
    state = {"args": options, "model": tensors, "extra_state": extra}
    torch.save({**state, "last_optimizer_state": {"exp_avg": torch.ones(3)}}, path)
    return path


def write_models(folder):
    return [write(folder / f"{seed}.pt", model(seed)) for seed in (1, 2, 3)]


def test_floating_point_tensors_are_averaged(tmp_path):
    state = average_checkpoints(write_models(tmp_path))
    actual, first = state["model"], model(1)
    assert set(actual) == set(first)
    for name in ("words.weight", "half"):
        values = np.stack([model(seed)[name].numpy().astype(np.float64) for seed in (1, 2, 3)])
        assert actual[name].dtype == first[name].dtype
        assert torch.equal(actual[name], torch.from_numpy(values.mean(0)).to(first[name].dtype))
    assert torch.equal(actual["steps"], first["steps"]) and actual[MARKER].shape == (0,)
    assert actual["output.weight"].data_ptr() == actual["words.weight"].data_ptr()
    assert "last_optimizer_state" not in state
    assert state["extra_state"] == {"epoch": 2}
    assert state["args"].arch == "sga_tiny"


@pytest.mark.cases(
    "change message",
    (lambda tensors: tensors.pop("half"), "only one has half"),
    (lambda tensors: tensors.update(half=torch.ones(5).half()), r"float16 \(5,\), but .* \(4,\)"),
    (lambda tensors: tensors.update(half=torch.ones(4)), r"float32 \(4,\), but torch\.float16"),
    (lambda tensors: tensors.update(steps=torch.tensor([4])), r"steps is torch\.int64"),
)
def test_different_models_are_refused(tmp_path, change, message):
    tensors = model(2)
    change(tensors)
    paths = [write(tmp_path / "a.pt", model(1)), write(tmp_path / "b.pt", tensors)]
    with pytest.raises(CheckpointError, match=rf"b\.pt: .*{message}"):
        average_checkpoints(paths)


def names(paths):
    return [path.name for path in paths]


@pytest.mark.cases("larger as_cfg", (False, True), (True, False))
def test_the_options_of_the_run_decide_whether_larger_is_better(tmp_path, larger, as_cfg):
    """Sort by number: negative values such as COMET's, and more than one digit before the point."""
    options = {"maximize_best_checkpoint_metric": larger}
    state = {"args": argparse.Namespace(**options)}
    if as_cfg:
        state = {"args": None, "cfg": {"checkpoint": options}}
    values = ("10.0011", "9.9992", "0.1", "-0.3000", "-0.3100", "-10.0")
    order = [f"checkpoint.best_de_comet_{value}.pt" for value in values]
    unrelated = ("checkpoint_best.pt", "checkpoint3.pt", "checkpoint.best_de_comet_1-shard0.pt")
    for name in (*order, *unrelated):
        torch.save({"model": {}, **state}, tmp_path / name)
    assert names(select_best(tmp_path, 5)) == (order if larger else order[::-1])[:5]
    torch.save({"model": {}, "cfg": {}}, tmp_path / "checkpoint.best_other_1.0.pt")
    assert names(select_best(tmp_path, 1, "de_comet")) == [order[0 if larger else -1]]
    with pytest.raises(CheckpointError, match=r"other_1\.0\.pt: .*maximize_best_checkpoint_metric"):
        select_best(tmp_path, 1, "other")


def test_an_unclear_choice_of_the_best_is_refused(tmp_path):
    for metrics, message in (
        ((), r"--best 2: 0 files .*checkpoint\.best_"),
        (("score_1.0001",), r"--best 2: 1 files .*--allow-fewer"),
        (("loss_1.0", "bleu_1.0"), "bleu, loss.* --metric"),
    ):
        folder = tmp_path / str(len(metrics))
        folder.mkdir()
        for name in metrics:
            write(folder / f"checkpoint.best_{name}.pt", model(1))
        with pytest.raises(CheckpointError, match=message):
            select_best(folder, 2)
    with pytest.raises(CheckpointError, match="--directory .*absent"):
        select_best(tmp_path / "absent", 2)


def test_the_last_checkpoints_are_chosen_by_number(tmp_path, caplog):
    for name in ("checkpoint2.pt", "checkpoint10.pt", "checkpoint9.pt", "checkpoint_last.pt"):
        (tmp_path / name).touch()
    assert names(select_last(tmp_path, 2)) == ["checkpoint10.pt", "checkpoint9.pt"]
    by_updates = ["checkpoint_2_1000.pt", "checkpoint_1_900.pt"]
    for name in by_updates:
        (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match="--by"):
        select_last(tmp_path, 2)
    assert names(select_last(tmp_path, 2, by="updates")) == by_updates
    with pytest.raises(CheckpointError, match=r"--last 4: 3 files"):
        select_last(tmp_path, 4, by="epochs")
    assert len(select_last(tmp_path, 4, by="epochs", allow_fewer=True)) == 3
    assert "--last 4: only 3 files" in caplog.text


def test_the_command_averages_the_chosen_files(tmp_path):
    for name, seed in {"8": 1, "9": 2, "10": 3, ".best_bleu_1.0": 1, ".best_bleu_2.0": 2}.items():
        write(tmp_path / f"checkpoint{name}.pt", model(seed))
    write(tmp_path / "checkpoint.best_score_1.0.pt", model(1))
    output = tmp_path / "average.pt"
    for options, seeds in (("--last 2", (2, 3)), ("--best 1 --metric bleu", (2,))):
        line = f"average --directory {tmp_path} --output {output} {options}"
        assert main(line.split()) == 0
        expected = sum(model(seed)["words.weight"].double() for seed in seeds) / len(seeds)
        assert torch.equal(read_checkpoint(output)["model"]["words.weight"], expected.float())


@pytest.mark.cases(
    "line message",
    ("--inputs {0}/1.pt --output {0}/1.pt", "--output {0}/1.pt: is one of the inputs"),
    ("--inputs {0}/1.pt {0}/./1.pt --output {0}/a.pt", "given more than once: {0}/1.pt\n"),
    ("--inputs {0}/1.pt --output {0}/absent/a.pt", "{0}/absent/a.pt"),
    ("--inputs {0}/1.pt --best 2 --output {0}/a.pt", "--directory"),
    ("--directory {0} --output {0}/a.pt", "--best N or --last N"),
)
def test_the_command_refuses_contradictory_options(tmp_path, capsys, line, message):
    inputs = write_models(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        main(["average", *line.format(tmp_path).split()])
    assert exit_info.value.code == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == inputs
