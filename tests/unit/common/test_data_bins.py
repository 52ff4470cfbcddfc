"""Reading data-bins of several languages: which file is taken, and what is said about one that is missing."""

import pytest

from fairseq_plugins.common import data_bins
from tests import builders

SYMBOLS = builders.dictionary()


def first(text):
    return int(text[0][0])


def write(folder, name, token, count=2):
    pair, _, language = name.rpartition(".")
    builders.write_side(folder, "train", pair or language, language, [[token, 5]] * count)
    if not pair:
        for ending in ("bin", "idx"):
            (folder / f"train.{language}.{language}.{ending}").rename(folder / f"train.{language}.{ending}")


@pytest.mark.cases(
    "names taken",
    (["de-None.de", "de", "en-de.de", "de-fr.de"], "de-None.de"),
    (["de", "en-de.de", "de-fr.de"], "de"),
    (["en-de.de", "de-fr.de"], "de-fr.de"),  # the first of the pairs
    (["de-en.de", "en-de.de"], "en-de.de"),  # its own name before the other direction's
    (["de-en.de"], "de-en.de"),
)
def test_which_monolingual_text_is_read(tmp_path, names, taken):
    tokens = {name: 6 + number for number, name in enumerate(names)}
    for name, token in tokens.items():
        write(tmp_path, name, token)
    given = str(tmp_path / "train"), "de", ["fr-es", "de-fr", "en-de"], SYMBOLS, "--monolingual"
    text = data_bins.load_monolingual(*given)
    assert first(text) == tokens[taken]


@pytest.mark.parametrize("own", [[], ["en"], ["en", "de"]])
def test_a_pair_has_the_files_of_one_direction(tmp_path, own):
    for token, language in enumerate(("en", "de"), start=6):
        write(tmp_path, f"de-en.{language}", token)
        if language in own:
            write(tmp_path, f"en-de.{language}", token + 10)
    sides = data_bins.load_pair(str(tmp_path / "train"), "en-de", SYMBOLS, "--pairs")
    assert [first(side) for side in sides] == ([16, 17] if len(own) == 2 else [6, 7])


def test_missing_and_empty_files_are_named_with_the_command(tmp_path):
    prefix = str(tmp_path / "train")
    rest = f"--trainpref TEXT --destdir {tmp_path}"
    command = f"fairseq-preprocess --only-source --source-lang de .*{rest}"
    with pytest.raises(ValueError, match=rf"--monolingual de: .*train\.de-None\.de\.bin is missing; run {command}"):
        data_bins.load_monolingual(prefix, "de", ["en-fr"], SYMBOLS, "--monolingual")
    command = f"fairseq-preprocess --source-lang en --target-lang de {rest}"
    with pytest.raises(ValueError, match=rf"--pairs en-de: .*train\.en-de\.en\.bin is missing; run {command}"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")
    write(tmp_path, "en-de.en", 6, count=0)
    with pytest.raises(ValueError, match=r"train\.en-de\.en\.bin is empty"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")
    write(tmp_path, "en-de.en", 6)
    write(tmp_path, "en-de.de", 7, count=3)
    with pytest.raises(ValueError, match=r"--pairs en-de: the sides of .*train need equal lengths; got \[2, 3\]"):
        data_bins.load_pair(prefix, "en-de", SYMBOLS, "--pairs")


def test_one_dictionary_for_all_languages(tmp_path):
    with pytest.raises(ValueError, match=r"no dictionary .*dict\.en\.txt"):
        data_bins.load_dictionary(str(tmp_path), ["en", "de"])
    builders.write_dictionary(tmp_path, "de")
    text = (tmp_path / "dict.de.txt").read_text()
    found = data_bins.load_dictionary(str(tmp_path), ["en", "de"])
    assert found.symbols[4:] == [f"p{number}" for number in range(builders.PIECES)]
    (tmp_path / "dict.en.txt").write_text(text.replace(" 1\n", " 9\n"))
    assert data_bins.load_dictionary(str(tmp_path), ["en", "de"]) == found
    builders.write_dictionary(tmp_path, "fr", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt differs from .*dict\.en\.txt"):
        data_bins.load_dictionary(str(tmp_path), ["en", "de", "fr"])


def test_names_of_pairs_and_languages():
    for pairs, languages, share, message in (
        ("", "", None, "--pairs and --monolingual are both empty"),
        *(
            (pair, "en", None, f"--pairs must be pairs of two languages, .* got '{pair}'")
            for pair in ("en", "a-b-c", "en-")
        ),
        ("en-de,en-de", "", None, "--pairs must name each once; got en-de,en-de"),
        ("en-de", "en,de,en", None, "--monolingual must name each once; got en,de,en"),
        ("en-de", "en,", 1.1, r"--pair-share must lie in \[0, 1\]; got 1.1"),
        ("en-de", "", 0.9, "--pair-share must be 1 where --monolingual is empty; got 0.9"),
        ("", "en", 0.1, "--pair-share must be 0 where --pairs is empty; got 0.1"),
    ):
        with pytest.raises(ValueError, match=message):
            data_bins.check_names(data_bins.split_names(pairs), data_bins.split_names(languages), share)
    for share in (0.0, 1.0):
        data_bins.check_names(["en-de"], ["en"], share)
