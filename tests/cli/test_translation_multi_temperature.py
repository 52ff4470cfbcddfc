"""Test multilingual fine-tuning of DeltaLM under the stock commands."""

import shutil

import pytest

from tests import builders

from .commands import hypotheses, largest_difference, last_line, output_of, transformer
from .conftest import write_random_masked_lm

COUNTS = {
    "train": {"en-de": 64, "en-fr": 8},
    "valid": {"en-de": 6, "en-fr": 6},
    "test": {"en-fr": 11},
}
TAGS = ["__de__", "__en__", "__fr__"]
LANGUAGES = """--task translation_multi_temperature --lang-pairs en-de,en-fr --langs de,en,fr
    --encoder-langtok tgt --decoder-langtok"""
DECODING = f"{LANGUAGES} -s en -t fr --beam 2 --max-sentences 4"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Write a data-bin with a large and a small pair, and a masked LM of its dictionary."""
    root = tmp_path_factory.mktemp("multilingual")
    (root / "bin").mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=len(split)):
            builders.write_pair(root / "bin", split, *pair.split("-"), count=count, seed=seed)
    write_random_masked_lm(root / "masked_lm", builders.VOCAB, 1, root / "bin" / "dict.en.txt")
    return root


@pytest.fixture(scope="module")
def run(root, train):
    """Train two epochs, at temperature 1 and then 5."""
    sizes = [*transformer(2, ffn=32, sides="encoder"), *transformer(1, ffn=32, sides="decoder")]
    line = f"""{LANGUAGES} --sampling-temperature-schedule 1:5:1 --arch deltalm_tiny --max-epoch 2
        --init-from-mlm {root / "masked_lm"} --embedding-mismatch extend --share-all-embeddings
        --max-source-positions 64 --max-target-positions 64 --dropout 0.1 --label-smoothing 0.1
        --criterion label_smoothed_cross_entropy"""

    def train_two_epochs(save_dir, *more, **options):
        return train(root / "bin", save_dir, line, *sizes, *more, **options)

    return train_two_epochs


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    """Train two epochs without interruption, keeping the checkpoint of each."""
    save_dir = tmp_path_factory.mktemp("trained")
    log = output_of(run(save_dir))
    for epoch, temperature, sentences, probabilities in (
        (1, 1, 72, "main:en-de 0.8889, main:en-fr 0.1111"),
        (2, 5, 106, "main:en-de 0.6025, main:en-fr "),
    ):
        size = f"{sentences} sentences, probabilities: {probabilities}"
        assert f"epoch {epoch}: sampling temperature {temperature}, {size}" in log
    return save_dir


def test_resume_across_an_epoch_equals_an_uninterrupted_run(trained, run, tmp_path):
    shutil.copyfile(trained / "checkpoint1.pt", tmp_path / "checkpoint_last.pt")
    message = last_line(run(tmp_path, "--langs", "fr,en,de", "--disable-validation", check=False))
    assert "checkpoint_last.pt" in message
    assert "--langs (or --lang-dict): de,en,fr there, fr,en,de here" in message
    log = output_of(run(tmp_path, "--disable-validation"))
    assert "epoch 2: sampling temperature 5" in log
    assert largest_difference(trained / "checkpoint2.pt", tmp_path / "checkpoint2.pt") == 0.0
    assert largest_difference(trained / "checkpoint1.pt", tmp_path / "checkpoint2.pt") > 0.0


def test_generate_writes_every_sentence_without_tags(trained, root, decode):
    (root / "masked_lm").rename(root / "elsewhere")
    process = decode(root / "bin", trained / "checkpoint_best.pt", f"{DECODING} --max-len-b 8")
    (root / "elsewhere").rename(root / "masked_lm")
    assert len(hypotheses(process)) == COUNTS["test"]["en-fr"]
    for kind in "DH":
        text = "\n".join(hypotheses(process, kind).values())
        assert not any(tag in text for tag in TAGS)
    assert all(line.startswith("__fr__ ") for line in hypotheses(process, "S").values())
