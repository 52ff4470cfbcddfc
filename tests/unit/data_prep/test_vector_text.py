"""word2vec's text: there and back, as gensim reads it, and files that are not what they say."""

import numpy as np
import pytest
from gensim.models import KeyedVectors

from data_prep.io import InputError
from data_prep.vector_text import WordVectors, read_vectors, write_vectors
from tests.csr_builders import vectors, write_raw


def test_there_and_back_and_as_gensim_reads_it(tmp_path):
    side = vectors("w", 30)
    write_vectors([tmp_path / "v"], "--output", [side])
    found = read_vectors(tmp_path / "v", "--source")
    assert found.words == side.words
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, side.vectors)
    stock = KeyedVectors.load_word2vec_format(str(tmp_path / "v"))
    assert list(stock.index_to_key) == side.words
    np.testing.assert_array_equal(stock.vectors, found.vectors)
    stock.save_word2vec_format(str(tmp_path / "stock"))
    np.testing.assert_array_equal(read_vectors(tmp_path / "stock", "--source").vectors, found.vectors)
    assert found.rows()["w7"] == 7


def test_blanks_in_words_and_repeated_words(tmp_path, capsys):
    path = write_raw(tmp_path / "v", "4 2", "New York 1 2 ", "a 3 4", "a 5 6", "b\u00a0c 7 8")
    found = read_vectors(path, "--source")
    assert found.words == ["New York", "a", "b\u00a0c"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert "1 words come twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 1 2", "b 1 2"], "line 1: 'a 1 2'; valid: the numbers of words and of dimensions"),
        (["2 0", "a", "b"], "line 1: '2 0'"),
        (["2 2", "a 1 2", "b 1"], "line 3: 2 columns; valid: a word and 2 numbers"),
        (["2 2", "a 1 2", "b 1 x"], "line 3: a column of 'b' is no number"),
        (["2 2", "a 1 2", "b 1 nan"], "line 3: the vector of 'b' holds NaN"),
        (["2 2", "a inf 2", "b 1 2"], "line 2: the vector of 'a' holds NaN or an infinite number"),
        (["3 2", "a 1 2", "b 1 2"], "2 words, but its first line says 3; valid: a complete file"),
        (["2 2", "a 1 2", "b 1 2", "c 1 2"], "more than the 2 words that its first line says"),
        (["1 2", "a 1 2"], "1 words; valid: 2 or more"),
        (["2 2", "a 1 2", "a 1 2"], "1 words; valid: 2 or more"),
    ],
)
def test_what_is_refused(tmp_path, lines, message):
    with pytest.raises(InputError, match=f"--target .*{message}"):
        read_vectors(write_raw(tmp_path / "v", *lines), "--target")


def test_no_file_no_text_no_utf8(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "none", "--source")
    (tmp_path / "bad").write_bytes(b"2 1\na 1\n\xff 2\n")
    with pytest.raises(InputError, match="line 3: not UTF-8"):
        read_vectors(tmp_path / "bad", "--source")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InputError, match="the file is empty"):
        read_vectors(tmp_path / "empty", "--source")


def test_two_files_appear_together_or_not_at_all(tmp_path):
    good, bad = vectors("w", 3), WordVectors(["a", "b"], np.zeros((2, 3), dtype=object))
    with pytest.raises(TypeError):
        write_vectors(
            [tmp_path / "one", tmp_path / "two"], "--output", [good, bad._replace(vectors=np.array([[None]] * 2))]
        )
    assert list(tmp_path.iterdir()) == []
