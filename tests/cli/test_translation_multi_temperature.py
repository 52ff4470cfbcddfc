"""Multilingual fine-tuning of DeltaLM under the stock commands: temperature schedule, language tags, resume, decoding."""

import shutil
from contextlib import nullcontext

import pytest
from fairseq import checkpoint_utils, options, tasks

from tests import builders

from .commands import checkpoint, hypotheses, largest_difference, last_line, model_of, transformer
from .conftest import write_random_masked_lm

COUNTS = {"train": {"en-de": 64, "en-fr": 8}, "valid": {"en-de": 6, "en-fr": 6}, "test": {"en-fr": 11}}
TAGS = ["__de__", "__en__", "__fr__"]
LANGUAGES = """--task translation_multi_temperature --lang-pairs en-de,en-fr --encoder-langtok tgt --decoder-langtok --cpu
    --langs de,en,fr"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A data-bin with a large and a small pair, and a random masked LM of its dictionary."""
    root = tmp_path_factory.mktemp("multilingual")
    (root / "bin").mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=len(split)):
            builders.write_pair(root / "bin", split, *pair.split("-"), count=count, seed=seed)
    write_random_masked_lm(root / "masked_lm", builders.VOCAB, 1, root / "bin" / "dict.en.txt")
    return root


def train_arguments(root, user_dir, save_dir, *more):
    """A tiny training run: epoch 1 at temperature 1, epoch 2 at 5."""
    line = f"""{root / "bin"} --user-dir {user_dir} --save-dir {save_dir} {LANGUAGES} --sampling-temperature-schedule 1:5:1
        --arch deltalm_tiny --init-from-mlm {root / "masked_lm"} --embedding-mismatch extend --share-all-embeddings
        --max-source-positions 64 --max-target-positions 64 --criterion label_smoothed_cross_entropy --label-smoothing 0.1
        --optimizer adam --lr 0.01 --max-sentences 8 --num-workers 0 --seed 5 --max-epoch 2 --dropout 0.1"""
    return [*line.split(), *transformer(2, ffn=32, sides="encoder"), *transformer(1, ffn=32, sides="decoder"), *more]


@pytest.fixture(scope="module")
def trained(root, run_cli, user_dir, tmp_path_factory):
    """Two epochs without interruption, each of them kept."""
    save_dir = tmp_path_factory.mktemp("trained")
    result = run_cli("train", *train_arguments(root, user_dir, save_dir))
    (save_dir / "train.log").write_text(result.stderr + result.stdout)
    return save_dir


def test_temperature_and_tags_reach_the_training(trained):
    log = (trained / "train.log").read_text()
    drawn = [line.split("] ")[-1] for line in log.splitlines() if "sampling temperature" in line]
    assert len(drawn) >= 2  # fairseq prepares one more
    shares = "probabilities: main:en-de 0.8889, main:en-fr 0.1111"
    assert drawn[0] == f"epoch 1: sampling temperature 1, 72 sentences, {shares}"
    assert drawn[1].startswith(
        "epoch 2: sampling temperature 5, 106 sentences, probabilities: main:en-de 0.6025, main:en-fr "
    )
    assert "--embedding-mismatch extend" in log
    # <mask> of the masked LM has no entry in the dictionary; the tags have one each.
    assert model_of(trained)["encoder.embed_tokens.weight"].size(0) == builders.VOCAB - 1 + len(TAGS)
    assert checkpoint(trained)["task_state"]["languages"]["tags"] == TAGS


def test_resume_across_an_epoch_equals_an_uninterrupted_run(trained, root, run_cli, user_dir, tmp_path):
    shutil.copyfile(trained / "checkpoint1.pt", tmp_path / "checkpoint_last.pt")
    result = run_cli("train", *train_arguments(root, user_dir, tmp_path, "--disable-validation"))
    assert "epoch 2: sampling temperature 5" in result.stderr + result.stdout
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0
    assert largest_difference(trained / "checkpoint1.pt", tmp_path / "checkpoint2.pt") > 0.0


def test_another_order_of_the_languages_is_refused_on_resume(trained, root, run_cli, user_dir, tmp_path):
    shutil.copyfile(trained / "checkpoint1.pt", tmp_path / "checkpoint_last.pt")
    arguments = train_arguments(root, user_dir, tmp_path, "--langs", "fr,en,de", "--disable-validation")
    last = last_line(run_cli("train", *arguments, check=False))
    assert "checkpoint_last.pt was trained with other language tags" in last
    assert "--langs (or --lang-dict): de,en,fr there, fr,en,de here" in last


def decoding(root, path):
    return [str(root / "bin"), *LANGUAGES.split(), *f"-s en -t fr --path {path} --beam 2 --max-sentences 4".split()]


def test_generate_writes_every_sentence_without_tags(trained, root, run_cli, user_dir):
    """The pretrained file is not read again."""
    (root / "masked_lm").rename(root / "elsewhere")
    try:
        line = decoding(root, trained / "checkpoint_best.pt")
        done = run_cli("generate", *line, "--user-dir", user_dir, "--max-len-b", 8)
    finally:
        (root / "elsewhere").rename(root / "masked_lm")
    assert len(hypotheses(done)) == COUNTS["test"]["en-fr"]
    assert not any(tag in line for tag in TAGS for kind in "DH" for line in hypotheses(done, kind).values())
    assert all(line.startswith("__fr__ ") for line in hypotheses(done, "S").values())


def test_another_order_of_the_languages_is_refused_when_decoding(trained, root):
    path = trained / "checkpoint_best.pt"
    for order, message in (("de,en,fr", None), ("en,de,fr", r"--langs .*: de,en,fr there, en,de,fr here")):
        line = [*decoding(root, path), "--langs", order]
        task = tasks.setup_task(options.parse_args_and_arch(options.get_generation_parser(), line))
        with pytest.raises(ValueError, match=message) if message else nullcontext():
            checkpoint_utils.load_model_ensemble([str(path)], task=task)
