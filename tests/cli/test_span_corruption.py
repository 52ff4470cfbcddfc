"""Test span-corruption pre-training and mixed-in text under the stock commands."""

import shutil

import pytest

from .commands import hypotheses, largest_difference, logged

TEXTS = "--add-sentinels 40 --tokens-per-sample 40"
PRETRAINING = f"--task span_corruption --pairs en-de --monolingual en {TEXTS}"
MIXING = f"--task translation_mixing -s en -t de {TEXTS}"


@pytest.fixture(scope="module")
def data(world, run_cli, tmp_path_factory):
    """Copy the pair en-de and binarize its English side as monolingual text."""
    folder = tmp_path_factory.mktemp("data") / "bin"
    shutil.copytree(world.data, folder)
    line = f"""--only-source -s en --srcdict {world.root / "dict.txt"} --destdir {folder}
        --trainpref {world.root / "train"} --validpref {world.root / "valid"}"""
    run_cli("preprocess", *line.split())
    assert (folder / "train.en-None.en.idx").is_file()
    return folder


@pytest.fixture
def run(train, data):
    """Train a tiny stock transformer up to an update."""

    def train_until(save_dir, updates, more):
        line = f"""--arch transformer_tiny --share-all-embeddings --lr 0.003 --label-smoothing 0.1
            --no-epoch-checkpoints --max-update {updates} {more}"""
        return train(data, save_dir, line)

    return train_until


def sentinels(text):
    return [word for word in text.split() if word.startswith("<extra_id_")]


@pytest.mark.slow
def test_pretraining_resumes_exactly_and_fills_gaps(data, run, decode, tmp_path):
    """Resume inside the first epoch with two workers; end in the second."""
    more = f"""{PRETRAINING} --pair-share 0.5 --sampling-temperature 2
        --criterion label_smoothed_cross_entropy"""
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    losses = logged(run(unbroken, 24, more), "valid_loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]
    run(resumed, 6, f"{more} --disable-validation")
    run(resumed, 24, f"{more} --disable-validation --num-workers 2")
    assert largest_difference(unbroken, resumed) == 0.0

    line = f"--max-len-b 20 {PRETRAINING} --gen-subset valid --beam 2"
    process = decode(data, unbroken / "checkpoint_last.pt", line)
    sources, targets = hypotheses(process, "S"), hypotheses(process, "T")
    assert len(hypotheses(process, "H")) == len(sources) == len(targets) > 12
    for source, target in zip(sources.values(), targets.values()):
        count = len(sentinels(source))
        assert count > 0
        expected = [f"<extra_id_{number}>" for number in range(count)]
        assert sentinels(source) == sentinels(target) == expected


@pytest.mark.slow
def test_mixing_resumes_exactly_and_decodes_as_translation(data, run, decode, tmp_path):
    """Resume inside the first epoch with two workers; end in the second."""
    more = f"{MIXING} --mix-monolingual de,en --criterion label_smoothed_linear_cross_entropy"
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    process = run(unbroken, 30, f"{more} --eval-bleu")
    assert len(logged(process, "valid_bleu")) == 2
    assert logged(process, "train_num_updates")[0] == 24, "12 batches of pairs, 12 of text"
    run(resumed, 7, f"{more} --disable-validation")
    run(resumed, 30, f"{more} --disable-validation --num-workers 2")
    assert largest_difference(unbroken, resumed) == 0.0
    process = decode(data, unbroken / "checkpoint_last.pt", f"--max-len-b 20 {MIXING}")
    assert len(hypotheses(process, "H")) == 12
