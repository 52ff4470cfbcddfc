"""``--data bin:bin2`` under fairseq-train: which folder each epoch reads, and a run that stops in the second one."""

import re

import pytest

from .commands import largest_difference

LINE = """--task span_corruption --pairs en-de --add-sentinels 40 --tokens-per-sample 40 --arch transformer_tiny
    --share-all-embeddings --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --lr 0.003
    --no-epoch-checkpoints"""


@pytest.fixture(scope="module")
def second(world, run_cli, tmp_path_factory):
    """A data-bin of 40 training pairs, without a validation set."""
    root = tmp_path_factory.mktemp("second")
    for language in ("en", "de"):
        lines = (world.root / f"train.{language}").read_text(encoding="utf-8").splitlines()[-40:]
        (root / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    dictionary = world.root / "dict.txt"
    line = f"-s en -t de --srcdict {dictionary} --tgtdict {dictionary} --destdir {root / 'bin'}"
    run_cli("preprocess", *line.split(), "--trainpref", root / "train")
    return root / "bin"


def inputs(done, split="train"):
    """Inputs of the training set each time it was loaded."""
    return [int(number) for number in re.findall(rf"{split} en-de: (\d+) inputs", done.stderr + done.stdout)]


@pytest.mark.slow
def test_epochs_take_turns_and_a_resumed_run_goes_on_in_its_folder(world, second, train, tmp_path):
    """12 updates in the first folder, 5 in the second, then the first again; the resumed run stopped at 14."""
    data, whole, parts = f"{world.data}:{second}", tmp_path / "whole", tmp_path / "parts"
    done = train(data, whole, f"{LINE} --max-update 20")
    assert inputs(done) == [96, 40, 96] and inputs(done, "valid") == [12]
    stopped = train(data, parts, f"{LINE} --max-update 14 --disable-validation")
    assert inputs(stopped) == [96, 40]
    resumed = train(data, parts, f"{LINE} --max-update 20 --disable-validation --num-workers 2")
    assert inputs(resumed) == [40, 96], "the second folder, in the middle of epoch 2"
    assert largest_difference(whole, parts) == 0.0


def test_a_folder_that_lacks_the_pair_ends_the_command_before_the_first_batch(world, second, train, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = train(f"{world.data}:{empty}", tmp_path / "run", f"{LINE} --max-update 20", check=False)
    assert done.returncode != 0
    assert re.search(r"--pairs en-de: .*empty/train\.en-de\.en\.bin is missing", done.stderr)
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))
