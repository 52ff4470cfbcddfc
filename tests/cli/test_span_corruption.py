"""Span-corruption pre-training and translation with mixed-in text under the stock commands, each in a subprocess."""

import shutil

import pytest

from .commands import hypotheses, largest_difference, logged

TEXTS = "--add-sentinels 40 --tokens-per-sample 40"
PRETRAINING = f"--task span_corruption --pairs en-de --monolingual en {TEXTS}"
MIXING = f"--task translation_mixing -s en -t de {TEXTS}"


@pytest.fixture(scope="module")
def data(world, run_cli, tmp_path_factory):
    """The pair en-de, and its English as text of its own."""
    folder = tmp_path_factory.mktemp("data") / "bin"
    shutil.copytree(world.data, folder)
    line = f"--only-source -s en --srcdict {world.root / 'dict.txt'} --destdir {folder}"
    run_cli("preprocess", *line.split(), "--trainpref", world.root / "train", "--validpref", world.root / "valid")
    assert (folder / "train.en-None.en.idx").is_file()
    return folder


@pytest.fixture
def run(train, data):
    """A tiny run of a stock transformer up to an update."""
    line = "--arch transformer_tiny --share-all-embeddings --lr 0.003 --label-smoothing 0.1 --no-epoch-checkpoints"
    return lambda save_dir, updates, more: train(data, save_dir, f"{line} --max-update {updates} {more}")


@pytest.mark.slow
def test_pretraining_resumes_exactly_and_fills_gaps(data, run, decode, tmp_path):
    """The resumed run stops inside the first epoch, goes on with two workers and ends in the second."""
    more = f"{PRETRAINING} --pair-share 0.5 --sampling-temperature 2 --criterion label_smoothed_cross_entropy"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    losses = logged(run(whole, 24, more), "valid_loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    run(parts, 6, f"{more} --disable-validation")
    run(parts, 24, f"{more} --disable-validation --num-workers 2")
    assert largest_difference(whole, parts) == 0.0

    last, line = whole / "checkpoint_last.pt", f"--max-len-b 20 {PRETRAINING}"
    done = decode(data, last, f"{line} --gen-subset valid --beam 2")
    sources, targets = hypotheses(done, "S"), hypotheses(done, "T")
    assert len(hypotheses(done, "H")) == len(sources) == len(targets) > 12
    for source, target in zip(sources.values(), targets.values()):
        sentinels = [[word for word in text.split() if word.startswith("<extra_id_")] for text in (source, target)]
        assert sentinels[0] == sentinels[1] == [f"<extra_id_{number}>" for number in range(len(sentinels[0]))] != []
    answer = decode(data, last, line, command="interactive", stdin="<extra_id_0> <extra_id_1>\n")
    assert hypotheses(answer, "S") == {"0": "<extra_id_0> <extra_id_1>"} and len(hypotheses(answer, "H")) == 1


@pytest.mark.slow
def test_mixing_resumes_exactly_and_decodes_as_translation(data, run, decode, tmp_path):
    """12 batches of pairs and 12 of text an epoch; the resumed run starts in the first epoch."""
    more = f"{MIXING} --mix-monolingual de,en --criterion label_smoothed_linear_cross_entropy"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = run(whole, 30, f"{more} --eval-bleu")
    assert len(logged(done, "valid_bleu")) == 2
    assert logged(done, "train_num_updates")[0] == 24, "96 pairs in 12 batches, and as many of text"
    run(parts, 7, f"{more} --disable-validation")
    run(parts, 30, f"{more} --disable-validation --num-workers 2")
    assert largest_difference(whole, parts) == 0.0
    done = decode(data, whole / "checkpoint_last.pt", f"--max-len-b 20 {MIXING}")
    assert len(hypotheses(done, "H")) == 12
    assert not any("<extra_id_" in text for text in hypotheses(done, "S").values())
