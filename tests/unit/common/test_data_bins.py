"""Test which files of a data-bin are read, and that missing and malformed ones are named."""

import pytest

from fairseq_plugins.common import data_bins
from tests import builders

SYMBOLS = builders.dictionary()


def first_token(text):
    return int(text[0][0])


def write_text(folder, name, token, count=2):
    pair, _, language = name.rpartition(".")
    builders.write_side(folder, "train", pair or language, language, [[token, 5]] * count)
    if not pair:
        for ending in ("bin", "idx"):
            file = folder / f"train.{language}.{language}.{ending}"
            file.rename(folder / f"train.{language}.{ending}")


@pytest.mark.cases(
    "names expected",
    (["de-None.de", "de", "en-de.de", "de-fr.de"], "de-None.de"),
    (["de", "en-de.de", "de-fr.de"], "de"),
    (["en-de.de", "de-fr.de"], "de-fr.de"),  # the first of the pairs
    (["de-en.de", "en-de.de"], "en-de.de"),  # the pair's own direction first
    (["de-en.de"], "de-en.de"),
)
def test_monolingual_text_is_preferred_to_the_sides_of_pairs(tmp_path, names, expected):
    for token, name in enumerate(names, start=6):
        write_text(tmp_path, name, token)
    prefix, pairs = str(tmp_path / "train"), ["fr-es", "de-fr", "en-de"]
    text = data_bins.load_monolingual(prefix, "de", pairs, SYMBOLS, "--monolingual")
    assert first_token(text) == 6 + names.index(expected)


@pytest.mark.cases("languages tokens", ([], [6, 7]), (["en"], [6, 7]), (["en", "de"], [16, 17]))
def test_both_sides_of_a_pair_come_from_one_direction(tmp_path, languages, tokens):
    """Files of de-en are complete; of en-de, those of ``languages`` exist."""
    for token, language in enumerate(("en", "de"), start=6):
        write_text(tmp_path, f"de-en.{language}", token)
        if language in languages:
            write_text(tmp_path, f"en-de.{language}", token + 10)
    sides = data_bins.load_pair(str(tmp_path / "train"), "en-de", SYMBOLS, "--pairs")
    assert [first_token(side) for side in sides] == tokens


def test_missing_empty_and_unequal_files_are_named(tmp_path):
    prefix = str(tmp_path / "train")

    def refused(message):
        return pytest.raises(ValueError, match=message)

    with refused(r"--monolingual de: .*train\.de-None\.de\.bin is missing; .*--trainpref"):
        data_bins.load_monolingual(prefix, "de", ["en-fr"], SYMBOLS, "--monolingual")
    with refused(r"--pairs en-de: .*train\.en-de\.en\.bin is missing; .*--trainpref"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")
    write_text(tmp_path, "en-de.en", 6, count=0)
    with refused(r"--pairs en-de: .*train\.en-de\.en\.bin is empty"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")
    write_text(tmp_path, "en-de.en", 6)
    write_text(tmp_path, "en-de.de", 7, count=3)
    with refused(r"--pairs en-de: .* equal lengths; got \[2, 3\]"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")


def test_all_languages_share_one_dictionary(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(ValueError, match=r"no dictionary .*dict\.en\.txt"):
        data_bins.load_dictionary(folder, ["en", "de"])
    builders.write_dictionary(tmp_path, "de")
    dictionary = data_bins.load_dictionary(folder, ["en", "de"])
    assert dictionary.symbols[4:] == builders.piece_names()
    text = (tmp_path / "dict.de.txt").read_text()
    (tmp_path / "dict.en.txt").write_text(text.replace(" 1\n", " 9\n"))  # counts may differ
    assert data_bins.load_dictionary(folder, ["en", "de"]) == dictionary
    builders.write_dictionary(tmp_path, "fr", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt differs from .*dict\.en\.txt"):
        data_bins.load_dictionary(folder, ["en", "de", "fr"])


def test_wrong_pairs_languages_and_shares_are_named():
    for pairs, languages, share, message in (
        ("", "", None, "--pairs and --monolingual are both empty"),
        ("en", "en", None, "--pairs .* got 'en'"),
        ("a-b-c", "en", None, "--pairs .* got 'a-b-c'"),
        ("en-", "en", None, "--pairs .* got 'en-'"),
        ("en-de,en-de", "", None, "--pairs must name each once; got en-de,en-de"),
        ("en-de", "en,de,en", None, "--monolingual must name each once; got en,de,en"),
        ("en-de", "en,", 1.1, r"--pair-share must lie in \[0, 1\]; got 1.1"),
        ("en-de", "", 0.9, "--pair-share must be 1 where --monolingual is empty; got 0.9"),
        ("", "en", 0.1, "--pair-share must be 0 where --pairs is empty; got 0.1"),
    ):
        names = data_bins.split_names(pairs), data_bins.split_names(languages)
        with pytest.raises(ValueError, match=message):
            data_bins.check_names(*names, share)
    for share in (0.0, 1.0):
        data_bins.check_names(["en-de"], ["en"], share)
