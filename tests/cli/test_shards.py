"""Test ``--data bin:bin2`` under fairseq-train: the folder of each epoch, also after a resume."""

import re

import pytest

from .commands import largest_difference, output_of

LINE = """--task span_corruption --pairs en-de --add-sentinels 40 --tokens-per-sample 40
    --arch transformer_tiny --share-all-embeddings --criterion label_smoothed_cross_entropy
    --label-smoothing 0.1 --lr 0.003 --no-epoch-checkpoints"""


@pytest.fixture(scope="module")
def shard(world, run_cli, tmp_path_factory):
    """Write a data-bin of 40 training pairs, without a validation set."""
    root = tmp_path_factory.mktemp("shard")
    for language in ("en", "de"):
        lines = (world.root / f"train.{language}").read_text(encoding="utf-8").splitlines()[-40:]
        (root / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    dictionary = world.root / "dict.txt"
    line = f"""-s en -t de --srcdict {dictionary} --tgtdict {dictionary} --destdir {root / "bin"}
        --trainpref {root / "train"}"""
    run_cli("preprocess", *line.split())
    return root / "bin"


def input_counts(process, split="train"):
    """Return the number of inputs each time the set was loaded."""
    return [int(count) for count in re.findall(rf"{split} en-de: (\d+) inputs", output_of(process))]


@pytest.mark.slow
def test_epochs_alternate_between_folders_also_after_a_resume(world, shard, train, tmp_path):
    """An epoch has 12 updates in the first folder, 5 in the second; the run is stopped at 14."""
    data, unbroken, resumed = f"{world.data}:{shard}", tmp_path / "unbroken", tmp_path / "resumed"
    process = train(data, unbroken, f"{LINE} --max-update 20")
    assert input_counts(process) == [96, 40, 96]
    assert input_counts(process, "valid") == [12]
    process = train(data, resumed, f"{LINE} --max-update 14 --disable-validation")
    assert input_counts(process) == [96, 40]
    line = f"{LINE} --max-update 20 --disable-validation --num-workers 2"
    process = train(data, resumed, line)
    assert input_counts(process) == [40, 96], "the second folder, in the middle of epoch 2"
    assert largest_difference(unbroken, resumed) == 0.0


def test_a_folder_without_the_pair_is_refused_before_the_first_batch(world, train, tmp_path):
    empty, run = tmp_path / "empty", tmp_path / "run"
    empty.mkdir()
    process = train(f"{world.data}:{empty}", run, f"{LINE} --max-update 20", check=False)
    assert process.returncode != 0
    assert re.search(r"--pairs en-de: .*empty/train\.en-de\.en\.bin", process.stderr)
    assert not list(run.glob("*.pt"))
