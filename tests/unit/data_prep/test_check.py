"""The check before anything is made, and the names of files."""

import pytest

from data_prep import check, layout
from tests.unit.data_prep.files import refused

PAIRS = [("en", "de"), ("en", "fr")]


@pytest.fixture
def text(tmp_path):
    for split, count in (("train", 3), ("test", 2)):
        for lang in ("en", "de", "fr"):
            (tmp_path / f"{split}.{lang}").write_text("".join(f"{lang} {i}\n" for i in range(count)))
    return tmp_path


def test_names_are_printed_and_counts_returned(text, capsys):
    check.main(["--text", str(text), "--pairs", "en-de,en-fr", "--splits", "train,test"])
    names = ["train.en", "train.de", "train.fr", "test.en", "test.de", "test.fr"]
    assert capsys.readouterr().out.split() == names
    assert list(check.check_text(text, PAIRS, ["train", "test"]).values()) == [3, 3, 3, 2, 2, 2]
    (text / "test.de").write_text("a\n\n")
    assert check.check_text(text, PAIRS[:1], ["test"], allow_empty_lines=True) == {"test.en": 2, "test.de": 2}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.de", b"a\nb\n", "--text: unequal line counts: train.en has 3, train.de has 2; line 3 has no counter"),
        ("test.fr", b"a\n\xc3\n", "test.fr, line 2: not UTF-8"),
        ("test.fr", b"", "test.fr: the file is empty"),
        ("test.fr", b"a\n \n", "test.fr, line 2: no text (1 such lines in all); valid: "),
        ("test.de", b"a\n\n\n", "test.de, line 2: no text (2 such lines in all)"),
        ("test.fr", None, "test.fr: no such file"),
    ],
)
def test_bad_files(text, name, content, message):
    (text / name).unlink()
    if content is not None:
        (text / name).write_bytes(content)
    refused(message, check.check_text, text, PAIRS, ["train", "test"])
    refused("nowhere: no such folder", check.check_text, text / "nowhere", PAIRS, ["test"])


def test_bad_pairs_and_splits():
    for pairs in ("", "en", "en-", "en-en", "en-de,en-de", "en-de,", "en-d/e", "a-b-c", "en - de"):
        refused("valid: different pairs of two languages, as en-de,en-fr", layout.parse_pairs, pairs)
    for splits in ("", "train,", "train,train", "a b", "a/b", "a.b"):
        refused("valid: different names, as train,valid,test", layout.parse_splits, splits)
