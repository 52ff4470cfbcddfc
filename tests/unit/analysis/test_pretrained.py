"""Pretrained encoders of every family give the vectors of their sentences; options and files that do not fit are refused."""

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
FORMATS = {"mbart": ["--input-format", "mbart"]}


def options(*line):
    """Parsed options of two models."""
    parser = argparse.ArgumentParser()
    add_text_options(parser)
    add_model_options(parser)
    add_model_options(parser, "-b")
    return parser.parse_args(["--cpu", *line])


def model_of(path, *line, first=None):
    """A model whose text is in pieces."""
    return Pretrained(str(path), "model", options("--sentencepiece", "none", *line), first)


@pytest.mark.parametrize(
    ("family", "language", "expected"),
    [
        ("xlmr", "de", ["<s>", "p1", "p2", "p3", "</s>"]),
        ("bert", "de", ["<s>", "p1", "p2", "p3", "</s>"]),
        ("mbart", "de", ["p1", "p2", "p3", "</s>", "[de_DE]"]),
        ("nllb", "deu", ["__deu_Latn__", "p1", "p2", "p3", "</s>"]),
        ("deltalm", "de", ["<s>", "p1", "p2", "p3", "</s>"]),
    ],
)
def test_each_family_reads_its_own_vocabulary_and_format(family, language, expected, tmp_path):
    path, symbols = nlu_builders.write_any(family, tmp_path / family)
    heads = nlu_builders.heads_of(family)
    line = [*FORMATS.get(family, []), *(["--heads", str(heads)] if heads else [])]
    model = model_of(path, *line)
    rows = {symbol: row for row, symbol in enumerate([*nlu_builders.SPECIAL, *symbols])}
    tokens = torch.tensor([[rows[symbol] for symbol in expected]])
    found = model.vectors(LINES, language, language, str(tmp_path))
    with torch.no_grad():
        states = load_text_encoder(path, heads)(tokens)
    assert found.layers == (0, 1, 2)
    for layer, state in enumerate(states):
        torch.testing.assert_close(found.layer(layer)[0], state[0].mean(0), rtol=1e-4, atol=1e-5)
    assert not model.encoder.training


def test_a_second_model_has_its_own_files_or_those_of_the_first(tmp_path):
    first_path, _ = nlu_builders.write_any("xlmr", tmp_path / "first")
    second_path = tmp_path / "second"
    shutil.copytree(first_path, second_path)
    first = model_of(first_path)
    own = model_of(second_path, first=first)
    assert own.inputs.dictionary.symbols == first.inputs.dictionary.symbols
    os.remove(second_path / "dict.txt")
    assert model_of(second_path, first=first).inputs.dictionary.symbols == first.inputs.dictionary.symbols
    with pytest.raises(ValueError, match="--dict: no file beside .* tells its vocabulary"):
        model_of(second_path)
    with pytest.raises(ValueError, match="dictionary none.txt: cannot be read"):
        model_of(second_path, "--dict-b", "none.txt", first=first)
    changed = model_of(second_path, "--input-format", "bert", "--input-format-b", "mbart50", "--langs-b", "p3",
                       "--language-template-b", "{}", first=first)  # fmt: skip
    assert changed.inputs.rows(["p1"], "p3", "x")[0].tolist() == [7, 5, 2]


def test_sentencepiece_lies_beside_the_model_or_is_named(tmp_path):
    path, _ = nlu_builders.write_any("xlmr", tmp_path / "xlmr")
    with pytest.raises(ValueError, match=r"--sentencepiece: .*xlmr has no sentencepiece.bpe.model or"):
        Pretrained(str(path), "model", options())
    nlu_builders.write_sentencepiece(path, pieces=22)
    beside = Pretrained(str(path), "model", options("--max-unknown", "1"))
    assert beside.segmenter_file == str(path / "sentencepiece.bpe.model")
    assert beside.inputs.segmenter is not None
    in_folder = Pretrained(str(path / "model.safetensors"), "model", options("--sentencepiece", "none"))
    assert in_folder.inputs.segmenter is None
    with pytest.raises(ValueError, match="--sentencepiece x: no such file"):
        Pretrained(str(path), "model", options("--sentencepiece", "x"))


def test_another_models_dictionary_is_refused(tmp_path):
    path, _ = nlu_builders.write_any("xlmr", tmp_path / "xlmr")
    other = nlu_builders.write_dict(tmp_path / "other" / "dict.txt", ["p1", "p0", "p2"])
    with pytest.raises(
        ValueError, match=r"--dict .*: the vocabulary of .* has 'p0' as entry 4, the data's dictionary 'p1'"
    ):
        model_of(path, "--dict", str(other))
    twice = nlu_builders.write_dict(tmp_path / "twice" / "dict.txt", ["p0", "p0"])
    with pytest.raises(ValueError, match="--dict .*twice/dict.txt: its vocabulary has an entry twice"):
        model_of(path, "--dict", str(twice))


def test_devices():
    for name, message in (("what", "--device what: "), ("cuda:99", "--device cuda:99: this torch sees")):
        with pytest.raises(ValueError, match=message):
            pick_device(name)


def test_lists_on_the_command_line():
    assert named_files(["en=a=b", "de=c"], "--text") == {"en": "a=b", "de": "c"}
    for items, message in ((["en"], "--text en: no LANG=FILE"), (["en=a", "en=b"], "--text en=b: en is there twice")):
        with pytest.raises(ValueError, match=message):
            named_files(items, "--text")
    with pytest.raises(ValueError, match="--text: the texts need equal numbers of lines.*got en 2, de 1"):
        check_parallel({"en": ["a", "b"], "de": ["c"]}, "--text")
