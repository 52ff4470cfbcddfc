"""The encoder of a VECO under each of the understanding tasks: trained with the stock commands, validated without its file."""

import pytest
import torch

from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_bins, nlu_builders, veco_builders
from tests.nlu_bins import random_ranking, write_ranking

from .commands import model_of

GRADES = ["3", "0", "1"]
CASES = {
    "cross_lingual_classification": ("sentence_prediction", "", "accuracy"),
    "token_classification": ("token_classification", "", "f1"),
    "span_qa": ("span_qa", "--max-question 5 --window-stride 8 --max-answer 3", "f1"),
    "relevance_ranking": ("relevance_ranking", "--ndcg-k 4", "ndcg"),
}
WRITE = {
    "cross_lingual_classification": lambda to, *_: nlu_builders.write_sentences(to, veco_builders.SYMBOLS),
    "token_classification": lambda to, name, seed: nlu_bins.write_tagged(to, name, nlu_bins.tagged_sentences(12, seed)),
    "span_qa": lambda to, name, seed: nlu_bins.write_questions(to, name, *nlu_bins.random_questions(12, seed)),
    "relevance_ranking": lambda to, name, seed: write_ranking(to, name, random_ranking(6, seed, GRADES), GRADES),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES)
def test_a_veco_is_fine_tuned_and_validated(train, decode, tmp_path, task):
    criterion, more, score = CASES[task]
    data, run, file = tmp_path / "bin", tmp_path / "run", tmp_path / "veco.pt"
    for seed, name in enumerate(("train.en", "valid.en", "valid.de")):
        WRITE[task](data, name, seed)
    words = (next(data.rglob("input0/dict.txt"), None) or next(data.rglob("dict.txt"))).read_text(encoding="utf-8")
    symbols = [line.split()[0] for line in words.splitlines()]
    symbols += [] if symbols[-1] == "<mask>" else ["<mask>"]
    veco_builders.pretrained(file, veco_builders.stock(symbols, scaled=False))
    layers = load_text_encoder(file).state_dict()
    shared = f"--task {task} --criterion {criterion} --batch-size 6 --log-format json"
    line = f"""{shared} {more} --max-positions 24 --arch veco_encoder_tiny --encoder-layers 2 --encoder-embed-dim 16
        --encoder-ffn-embed-dim 24 --encoder-heads 2 --pretrained-encoder {file} --unnamed-rows dictionary
        --embedding-mismatch truncate --train-subset train.en --valid-subset valid.en --lr 1e-6 --max-update 2"""
    done = train(data, run, line)
    assert f'"valid.en_{score}"' in done.stdout + done.stderr
    found = model_of(run)
    compared = [name for name in layers if name.startswith("layers.")]
    assert len(compared) > 20
    for name in compared:  # two updates of 1e-6 away from the file
        torch.testing.assert_close(found[f"encoder.{name}"], layers[name], rtol=0, atol=1e-5)
    file.unlink()
    done = decode(data, run / "checkpoint_last.pt", f"{shared} --valid-subset valid.de", command="validate")
    assert f'"valid.de_{score}"' in done.stdout + done.stderr
