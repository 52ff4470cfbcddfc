"""Sentences to token rows to layer vectors: padding, order, layers, files, and input that is refused."""

import logging

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from fairseq_plugins.analysis import vectors
from fairseq_plugins.analysis.text import TextInputs, load_segmenter, read_lines
from fairseq_plugins.analysis.vectors import mean_over, read_vectors, sentence_vectors
from fairseq_plugins.checkpoints.layouts import family_layout
from fairseq_plugins.understanding.encoder import TextEncoder
from tests.builders import randomise

PIECES = 12
SIZES = {"vocab_size": 20, "layers": 2, "embed_dim": 8, "ffn_dim": 12, "heads": 2, "max_positions": 12}


def encoder(family="xlmr"):
    result = TextEncoder(family_layout(family, **SIZES))
    randomise(result, 3)
    result.embed_tokens.weight.data[1] = 0.0
    return result.eval()


def dictionary():
    result = Dictionary()
    for number in range(PIECES):
        result.add_symbol(f"p{number}")
    return result


def inputs(**options):
    values = {"input_format": "xlmr", "max_positions": 12, "vocab_size": 20, **options}
    return TextInputs(dictionary(), None, **values)


def rows(lengths):
    generator = torch.Generator().manual_seed(1)
    middles = [torch.randint(4, 16, (length - 2,), generator=generator) for length in lengths]
    return [torch.cat([torch.tensor([0]), middle, torch.tensor([2])]) for middle in middles]


LENGTHS = [7, 3, 12, 4, 7, 5]


@pytest.mark.parametrize("family", ["xlmr", "mbart"])
def test_vectors_are_the_means_of_each_sentence_alone(family, tmp_path):
    model, text = encoder(family), rows(LENGTHS)
    found = sentence_vectors(model, text, str(tmp_path / "x.npy"), max_tokens=20)
    assert found.layers == (0, 1, 2)
    assert found.values.shape == (3, 6, 8)
    with torch.no_grad():
        for number, row in enumerate(text):
            for layer, states in enumerate(model(row[None])):
                expected = states[0].mean(0)
                torch.testing.assert_close(found.layer(layer)[number], expected, rtol=1e-5, atol=1e-6)


def test_the_file_has_its_place_on_the_disk_before_it_is_filled(tmp_path, monkeypatch):
    """A mapped file with holes ends the process with SIGBUS where the disk is full; it is not there before it is whole."""
    seen = []

    def watch(states, keep):
        (file,) = tmp_path.iterdir()
        seen.append(file.stat().st_blocks * 512 >= file.stat().st_size > 3 * 3000 * 8 * 4 and file.name != "x.npy")
        return mean_over(states, keep)

    monkeypatch.setattr(vectors, "mean_over", watch)
    sentence_vectors(encoder(), rows([3] * 3000), str(tmp_path / "x.npy"))
    assert seen and all(seen)


def test_only_the_layers_that_are_asked_for(tmp_path):
    model, text = encoder(), rows(LENGTHS)
    whole = sentence_vectors(model, text, str(tmp_path / "a.npy"))
    part = sentence_vectors(model, text, str(tmp_path / "b.npy"), layers=[2, 1])
    assert part.layers == (2, 1)
    assert torch.equal(part.layer(1), whole.layer(1))
    assert torch.equal(part.values[0], whole.layer(2))
    with pytest.raises(ValueError, match="layer 0 is not there; valid: 2, 1"):
        part.layer(0)


def test_vectors_are_kept_in_a_file_and_read_again(tmp_path):
    path = str(tmp_path / "x.npy")
    made = sentence_vectors(encoder(), rows(LENGTHS), path)
    found = read_vectors(path)
    assert torch.equal(found.values, made.values)
    assert torch.equal(found.limited(4).values, made.values[:, :4])


def test_vectors_that_are_refused(tmp_path):
    np.save(tmp_path / "int.npy", np.ones((5, 3), dtype=np.int64))
    (tmp_path / "text.npy").write_text("no array", encoding="utf-8")
    for name, message in (("int", "holds int64"), ("text", "not an array")):
        with pytest.raises(ValueError, match=message):
            read_vectors(str(tmp_path / f"{name}.npy"))
    with pytest.raises(ValueError, match="x: no sentences"):
        sentence_vectors(encoder(), [], str(tmp_path / "x.npy"), name="x")


def test_the_symbol_of_a_language():
    languages = ["en_XX", "deu_Latn", "zh_CN", "zh_TW"]
    made = inputs(input_format="mbart", languages=languages, codes={"de": "deu_Latn"}, template="<{}>")
    assert made.dictionary[made.symbol("de")] == "<deu_Latn>"
    assert made.dictionary[made.symbol("en")] == made.dictionary[made.symbol("en_XX")] == "<en_XX>"
    for language in ("fr", "zh"):
        with pytest.raises(ValueError, match=f"language {language}: --input-format mbart needs the symbol"):
            made.symbol(language)


def test_long_and_empty_sentences_are_counted(caplog):
    with caplog.at_level(logging.INFO):
        found = inputs(max_positions=5).rows(["p0 p1 p2 p3", "p0 p1 p2", ""], "en", "news")
    assert [row.tolist() for row in found] == [[0, 4, 5, 6, 2], [0, 4, 5, 6, 2], [0, 2]]
    assert "news: 1 sentences cut to 5 tokens, 1 empty" in caplog.text


def test_text_that_does_not_belong_to_the_model():
    with pytest.raises(ValueError, match=r"news: 1 of 4 pieces are unknown, more than --max-unknown 0.2"):
        inputs().rows(["p0 p1", "p2 x"], "en", "news")
    assert inputs(max_unknown=0.25).rows(["p0 p1", "p2 x"], "en", "news")[1].tolist() == [0, 6, 3, 2]
    with pytest.raises(ValueError, match=r"--dict has 18 entries with .* 2 languages, but the model only 17"):
        inputs(vocab_size=17, languages=["a", "b"])


def test_lines_end_at_lf_alone_and_files_that_are_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("a\u2028b\x0cc\r\nd\n\ne".encode())
    assert read_lines(str(path)) == ["a\u2028b\x0cc", "d", "", "e"]
    assert read_lines(str(path), 2) == ["a\u2028b\x0cc", "d"]
    (tmp_path / "latin").write_bytes(b"ok\nna\xefve\n")
    for read, name, message in (
        (read_lines, "latin", "is not UTF-8"),
        (read_lines, "none", "no such file"),
        (load_segmenter, "latin", "not a sentencepiece model"),
    ):
        with pytest.raises(ValueError, match=message):
            read(str(tmp_path / name))
