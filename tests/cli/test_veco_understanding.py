"""The encoder of a VECO under each of the understanding tasks: trained with the stock commands, validated without its file."""

import pytest
import torch

from fairseq_plugins.models.nlu import load_text_encoder
from tests import nlu_bins, nlu_builders, veco_builders

from .commands import model_of

GRADES = ["3", "0", "1"]


def classification(data, *_):
    nlu_builders.write_sentences(data, veco_builders.SYMBOLS)


def tagging(data, name, seed):
    nlu_bins.write_tagged(data, name, nlu_bins.tagged_sentences(12, seed))


def answering(data, name, seed):
    nlu_bins.write_questions(data, name, *nlu_bins.random_questions(12, seed))


def ranking(data, name, seed):
    nlu_bins.write_ranking(data, name, nlu_bins.random_ranking(6, seed, GRADES), GRADES)


CASES = {
    "cross_lingual_classification": (classification, "sentence_prediction", "", "accuracy"),
    "token_classification": (tagging, "token_classification", "", "f1"),
    "span_qa": (answering, "span_qa", "--max-question 5 --window-stride 8 --max-answer 3", "f1"),
    "relevance_ranking": (ranking, "relevance_ranking", "--ndcg-k 4", "ndcg"),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", list(CASES))
def test_a_veco_is_fine_tuned_and_validated(train, decode, tmp_path, task):
    write, criterion, more, score = CASES[task]
    data, run, file = tmp_path / "bin", tmp_path / "run", tmp_path / "veco.pt"
    for seed, name in enumerate(("train.en", "valid.en", "valid.de")):
        write(data, name, seed)
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
