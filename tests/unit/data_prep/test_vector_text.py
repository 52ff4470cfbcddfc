"""word2vec's text: there and back, as gensim reads it, and files that are not what they say."""

import numpy as np
import pytest
from gensim.models import KeyedVectors

from data_prep.vector_text import read_vectors, write_vectors
from tests.csr_builders import vectors, write_raw
from tests.unit.data_prep.files import refused


def test_there_and_back_and_as_gensim_reads_it(tmp_path):
    side = vectors("w", 30)
    write_vectors([tmp_path / "v"], "--output", [side])
    found, stock = read_vectors(tmp_path / "v", "--source"), KeyedVectors.load_word2vec_format(str(tmp_path / "v"))
    stock.save_word2vec_format(str(tmp_path / "stock"))
    back = read_vectors(tmp_path / "stock", "--source")
    assert found.words == list(stock.index_to_key) == back.words == side.words
    for values in (found.vectors, stock.vectors, back.vectors):
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, side.vectors)


def test_blanks_in_words_and_repeated_words(tmp_path, capsys):
    path = write_raw(tmp_path / "v", "4 2", "New York 1 2 ", "a 3 4", "a 5 6", "b\u00a0c 7 8")
    found = read_vectors(path, "--source")
    assert found.words == ["New York", "a", "b\u00a0c"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert "1 words come twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1 2\nb 1 2\n", "line 1: 'a 1 2'; valid: the numbers of words and of dimensions"),
        (b"2 0\na\nb\n", "line 1: '2 0'"),
        (b"2 2\na 1 2\nb 1\n", "line 3: 2 columns; valid: a word and 2 numbers"),
        (b"2 2\na 1 2\nb 1 x\n", "line 3: a column of 'b' is no number"),
        (b"2 2\na inf 2\nb 1 2\n", "line 2: the vector of 'a' holds NaN or an infinite number"),
        (b"3 2\na 1 2\nb 1 2\n", "2 words, but its first line says 3; valid: a complete file"),
        (b"2 2\na 1 2\nb 1 2\nc 1 2\n", "more than the 2 words that its first line says"),
        (b"1 2\na 1 2\n", "1 words; valid: 2 or more"),
        (b"2 2\na 1 2\na 1 2\n", "1 words; valid: 2 or more"),
        (b"2 1\na 1\n\xff 2\n", "line 3: not UTF-8"),
        (b"", "the file is empty"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    refused(["--target ", message], read_vectors, tmp_path / "v", "--target")
    refused("no such file", read_vectors, tmp_path / "none", "--source")
