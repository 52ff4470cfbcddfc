"""Test sentence vectors: token rows, padding, layers, files, and bad input."""

import logging

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import vectors
from fairseq_plugins.analysis.segmenters import load_segmenter
from fairseq_plugins.analysis.text import TextInputs, read_lines
from fairseq_plugins.analysis.vectors import mean_over, read_vectors, sentence_vectors
from fairseq_plugins.checkpoints.layouts import family_layout
from fairseq_plugins.understanding.encoder import TextEncoder
from tests import builders

SIZES = dict(vocab_size=20, layers=2, embed_dim=8, ffn_dim=12, heads=2, max_positions=12)
LENGTHS = [7, 3, 12, 4, 7, 5]


def make_encoder(family="xlmr"):
    encoder = TextEncoder(family_layout(family, **SIZES))
    builders.randomise(encoder, 3)
    encoder.embed_tokens.weight.data[1] = 0.0
    return encoder.eval()


def make_inputs(**options):
    symbols = builders.of_symbols(builders.piece_names(12))
    values = {"input_format": "xlmr", "max_positions": 12, "vocab_size": 20, **options}
    return TextInputs(symbols, None, **values)


def make_rows(lengths):
    generator = torch.Generator().manual_seed(1)
    pieces = [torch.randint(4, 16, (length - 2,), generator=generator) for length in lengths]
    return [torch.tensor([0, *row, 2]) for row in pieces]


@pytest.mark.parametrize("family", ["xlmr", "mbart"])
def test_vectors_are_the_means_of_each_sentence_alone(family, tmp_path):
    encoder, rows = make_encoder(family), make_rows(LENGTHS)
    means = sentence_vectors(encoder, rows, str(tmp_path / "x.npy"), max_tokens=20)
    assert means.layers == (0, 1, 2)
    assert means.values.shape == (3, 6, 8)
    with torch.no_grad():
        for number, row in enumerate(rows):
            for layer, states in enumerate(encoder(row[None])):
                expected = states[0].mean(0)
                vector = means.layer(layer)[number]
                torch.testing.assert_close(vector, expected, rtol=1e-5, atol=1e-6)


def test_disk_space_is_taken_before_the_file_is_filled(tmp_path, monkeypatch):
    """A mapped file with holes ends the process with SIGBUS if the disk is full.

    The file gets its name when it is complete.
    """
    is_reserved = []

    def watch(states, keep):
        (file,) = tmp_path.iterdir()
        size = file.stat().st_size
        is_full_size = file.stat().st_blocks * 512 >= size > 3 * 3000 * 8 * 4
        is_reserved.append(is_full_size and file.name != "x.npy")
        return mean_over(states, keep)

    monkeypatch.setattr(vectors, "mean_over", watch)
    sentence_vectors(make_encoder(), make_rows([3] * 3000), str(tmp_path / "x.npy"))
    assert is_reserved and all(is_reserved)


def test_layers_can_be_chosen(tmp_path):
    encoder, rows = make_encoder(), make_rows(LENGTHS)
    every_layer = sentence_vectors(encoder, rows, str(tmp_path / "a.npy"))
    two_layers = sentence_vectors(encoder, rows, str(tmp_path / "b.npy"), layers=[2, 1])
    assert two_layers.layers == (2, 1)
    assert torch.equal(two_layers.layer(1), every_layer.layer(1))
    assert torch.equal(two_layers.values[0], every_layer.layer(2))
    with pytest.raises(ValueError, match="layer 0 .* 2, 1"):
        two_layers.layer(0)


def test_vectors_are_read_from_their_file(tmp_path):
    path = str(tmp_path / "x.npy")
    means = sentence_vectors(make_encoder(), make_rows(LENGTHS), path)
    assert torch.equal(read_vectors(path).values, means.values)
    assert torch.equal(read_vectors(path).limited(4).values, means.values[:, :4])


def test_the_symbol_of_a_language():
    inputs = make_inputs(
        input_format="mbart",
        languages=["en_XX", "deu_Latn", "zh_CN", "zh_TW"],
        codes={"de": "deu_Latn"},
        template="<{}>",
    )
    for language, symbol in (("de", "<deu_Latn>"), ("en", "<en_XX>"), ("en_XX", "<en_XX>")):
        assert inputs.dictionary[inputs.symbol(language)] == symbol
    for language in ("fr", "zh"):
        with pytest.raises(ValueError, match=f"language {language}: --input-format mbart"):
            inputs.symbol(language)


def test_long_and_empty_sentences_are_counted(caplog):
    with caplog.at_level(logging.INFO):
        rows = make_inputs(max_positions=5).rows(["p0 p1 p2 p3", "p0 p1 p2", ""], "en", "news")
    assert [row.tolist() for row in rows] == [[0, 4, 5, 6, 2], [0, 4, 5, 6, 2], [0, 2]]
    assert "news: 1 sentences cut to 5 tokens, 1 empty" in caplog.text


def test_text_of_another_vocabulary_is_refused():
    text = ["p0 p1", "p2 x"]
    with pytest.raises(ValueError, match="news: 1 of 4 .* --max-unknown 0.2"):
        make_inputs().rows(text, "en", "news")
    assert make_inputs(max_unknown=0.25).rows(text, "en", "news")[1].tolist() == [0, 6, 3, 2]
    with pytest.raises(ValueError, match="--dict has 18 entries .* 17"):
        make_inputs(vocab_size=17, languages=["a", "b"])


def test_lines_end_at_a_line_feed_alone(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("a\u2028b\x0cc\r\nd\n\ne".encode())
    assert read_lines(str(path)) == ["a\u2028b\x0cc", "d", "", "e"]
    assert read_lines(str(path), 2) == ["a\u2028b\x0cc", "d"]


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "latin").write_bytes(b"ok\nna\xefve\n")
    np.save(tmp_path / "int.npy", np.ones((5, 3), dtype=np.int64))
    for reader, name, message in (
        (read_lines, "latin", "latin.* not UTF-8"),
        (read_lines, "none", "none: no such file"),
        (load_segmenter, "latin", "latin.* not a sentencepiece model"),
        (read_vectors, "int.npy", "int.npy.* int64"),
        (read_vectors, "latin", "latin.* not an array"),
    ):
        with pytest.raises(ValueError, match=message):
            reader(str(tmp_path / name))
    with pytest.raises(ValueError, match="news: no sentences"):
        sentence_vectors(make_encoder(), [], str(tmp_path / "x.npy"), name="news")
