"""Test pretrained encoders: every family's vectors, vocabularies and files, bad input."""

import argparse
import os
import shutil

import pytest
import torch

from fairseq_plugins.analysis.pretrained import Pretrained, pick_device
from fairseq_plugins.analysis.text import check_parallel, named_files
from fairseq_plugins.commands.analysis_options import add_model_options, add_text_options
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders

LINES = ["p1 p2 p3", "p7"]


def parse(*line):
    """Parse the options of two models."""
    parser = argparse.ArgumentParser()
    add_text_options(parser)
    add_model_options(parser)
    add_model_options(parser, "-b")
    return parser.parse_args(["--cpu", *line])


def read_model(path, *line, first=None):
    """Read a model whose text is already in pieces."""
    return Pretrained(str(path), "model", parse("--sentencepiece", "none", *line), first)


@pytest.fixture
def xlmr(tmp_path):
    return nlu_builders.write_any("xlmr", tmp_path / "xlmr")[0]


@pytest.mark.cases(
    "family options language tokens",
    ("xlmr", [], "de", "<s> p1 p2 p3 </s>"),
    ("bert", [], "de", "<s> p1 p2 p3 </s>"),
    ("mbart", ["--input-format", "mbart"], "de", "p1 p2 p3 </s> [de_DE]"),
    ("nllb", [], "deu", "__deu_Latn__ p1 p2 p3 </s>"),
    ("deltalm", [], "de", "<s> p1 p2 p3 </s>"),
)
def test_each_family_has_its_vocabulary_and_format(family, options, language, tokens, tmp_path):
    path, symbols = nlu_builders.write_any(family, tmp_path / family)
    heads = nlu_builders.heads_of(family)
    model = read_model(path, *options, *(["--heads", str(heads)] if heads else []))
    vectors = model.vectors(LINES, language, language, str(tmp_path))
    vocabulary = [*nlu_builders.SPECIAL, *symbols]
    row = torch.tensor([[vocabulary.index(token) for token in tokens.split()]])
    with torch.no_grad():
        states = load_text_encoder(path, heads)(row)
    assert vectors.layers == (0, 1, 2)
    for layer, state in enumerate(states):
        expected = state[0].mean(0)
        torch.testing.assert_close(vectors.layer(layer)[0], expected, rtol=1e-4, atol=1e-5)
    assert not model.encoder.training


def test_a_second_model_without_files_uses_those_of_the_first(xlmr, tmp_path):
    path = shutil.copytree(xlmr, tmp_path / "second")
    first = read_model(xlmr)
    symbols = first.inputs.dictionary.symbols
    assert read_model(path, first=first).inputs.dictionary.symbols == symbols
    os.remove(path / "dict.txt")
    assert read_model(path, first=first).inputs.dictionary.symbols == symbols
    with pytest.raises(ValueError, match="--dict: no file"):
        read_model(path)
    with pytest.raises(ValueError, match="none.txt: cannot be read"):
        read_model(path, "--dict-b", "none.txt", first=first)
    line = "--input-format bert --input-format-b mbart50 --langs-b p3 --language-template-b {}"
    second = read_model(path, *line.split(), first=first)
    assert second.inputs.rows(["p1"], "p3", "x")[0].tolist() == [7, 5, 2]


def test_sentencepiece_lies_beside_the_model_or_is_named(xlmr):
    with pytest.raises(ValueError, match="--sentencepiece: .*xlmr"):
        Pretrained(str(xlmr), "model", parse())
    nlu_builders.write_sentencepiece(xlmr, pieces=22)
    model = Pretrained(str(xlmr), "model", parse("--max-unknown", "1"))
    assert model.segmenter_file == str(xlmr / "sentencepiece.bpe.model")
    assert model.inputs.segmenter is not None
    assert read_model(xlmr / "model.safetensors").inputs.segmenter is None
    with pytest.raises(ValueError, match="--sentencepiece x: no such file"):
        Pretrained(str(xlmr), "model", parse("--sentencepiece", "x"))


def test_the_dictionary_of_another_model_is_refused(xlmr, tmp_path):
    for symbols, message in (
        (["p1", "p0", "p2"], "'p0' as entry 4, the data's dictionary 'p1'"),
        (["p0", "p0"], "an entry twice"),
    ):
        path = nlu_builders.write_dict(tmp_path / "other" / "dict.txt", symbols)
        with pytest.raises(ValueError, match=f"--dict .*{message}"):
            read_model(xlmr, "--dict", str(path))


def test_bad_devices_and_lists_are_refused():
    for name in ("what", "cuda:99"):
        with pytest.raises(ValueError, match=f"--device {name}: "):
            pick_device(name)
    assert named_files(["en=a=b", "de=c"], "--text") == {"en": "a=b", "de": "c"}
    for items, message in ((["en"], "--text en: "), (["en=a", "en=b"], "--text en=b: .* twice")):
        with pytest.raises(ValueError, match=message):
            named_files(items, "--text")
    with pytest.raises(ValueError, match="--text: .*en 2, de 1"):
        check_parallel({"en": ["a", "b"], "de": ["c"]}, "--text")
