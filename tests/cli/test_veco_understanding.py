"""Test the encoder of a VECO under each understanding task: training, then validation."""

import pytest
import torch

from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_bins, nlu_builders, veco_builders

from .commands import model_of, output_of

GRADES = ["3", "0", "1"]
CASES = {
    "cross_lingual_classification": ("sentence_prediction", "", "accuracy"),
    "token_classification": ("token_classification", "", "f1"),
    "span_qa": ("span_qa", "--max-question 5 --window-stride 8 --max-answer 3", "f1"),
    "relevance_ranking": ("relevance_ranking", "--ndcg-k 4", "ndcg"),
}


def write_sentences(data, name, seed):
    """Write every split; called once per split."""
    nlu_builders.write_sentences(data, veco_builders.SYMBOLS)


def write_tags(data, name, seed):
    nlu_bins.write_tagged(data, name, nlu_bins.tagged_sentences(12, seed))


def write_questions(data, name, seed):
    nlu_bins.write_questions(data, name, *nlu_bins.random_questions(12, seed))


def write_ranking(data, name, seed):
    ranking = nlu_bins.random_ranking(6, seed, GRADES)
    nlu_bins.write_ranking(data, name, ranking, GRADES)


WRITE = {
    "cross_lingual_classification": write_sentences,
    "token_classification": write_tags,
    "span_qa": write_questions,
    "relevance_ranking": write_ranking,
}


def read_symbols(data):
    file = next(data.rglob("input0/dict.txt"), None) or next(data.rglob("dict.txt"))
    symbols = [line.split()[0] for line in file.read_text(encoding="utf-8").splitlines()]
    return symbols if symbols[-1] == "<mask>" else [*symbols, "<mask>"]


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES)
def test_a_veco_is_fine_tuned_and_validated_without_its_file(train, decode, tmp_path, task):
    criterion, options, score = CASES[task]
    data, run, file = tmp_path / "bin", tmp_path / "run", tmp_path / "veco.pt"
    for seed, name in enumerate(("train.en", "valid.en", "valid.de")):
        WRITE[task](data, name, seed)
    veco_builders.pretrained(file, veco_builders.stock(read_symbols(data), scaled=False))
    pretrained = load_text_encoder(file).state_dict()
    shared = f"--task {task} --criterion {criterion} --batch-size 6 --log-format json"
    line = f"""{shared} {options} --max-positions 24 --arch veco_encoder_tiny --encoder-layers 2
        --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-heads 2
        --pretrained-encoder {file} --unnamed-rows dictionary --embedding-mismatch truncate
        --train-subset train.en --valid-subset valid.en --lr 1e-6 --max-update 2"""
    assert f'"valid.en_{score}"' in output_of(train(data, run, line))
    tuned = model_of(run)
    layers = [name for name in pretrained if name.startswith("layers.")]
    assert len(layers) > 20
    for name in layers:  # two updates of 1e-6 away from the file
        expected = pretrained[name]
        torch.testing.assert_close(tuned[f"encoder.{name}"], expected, rtol=0, atol=1e-5)
    file.unlink()
    line = f"{shared} --valid-subset valid.de"
    validation = decode(data, run / "checkpoint_last.pt", line, command="validate")
    assert f'"valid.de_{score}"' in output_of(validation)
