"""Lexicon files: both forms, merged files, messages that name file and line; and what is wrong with a lexicon for a text."""

from pathlib import Path

import pytest

from fairseq_plugins.data import csr_lexicon
from fairseq_plugins.data.csr_lexicon import (
    diagnosis,
    is_backwards,
    is_spaceless,
    is_word,
    lexicon_files,
    read_lexicon,
    read_lexicons,
    share_found,
    share_translated,
)


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


OWN = "dog\tKöter\t0.2\t2\r\ndog\tHund\t0.9\t1\r\ncat\tKatze\t0.5\t10\r\ncat\tKater\t.4\t9\r\n"


@pytest.mark.parametrize(
    ("text", "encoding", "top", "wanted"),
    [
        (
            "dog\tHund\ncat Katze\n\ndog\tKöter\ndog\tHund\n",
            "utf-8",
            None,
            {"dog": ["Hund", "Köter"], "cat": ["Katze"]},
        ),
        ("New York\tNeu York\na b\na c\n", "utf-8", 1, {"New York": ["Neu York"], "a": ["b"]}),
        (OWN, "utf-8", None, {"dog": ["Hund", "Köter"], "cat": ["Kater", "Katze"]}),
        (OWN, "utf-8", 1, {"dog": ["Hund"], "cat": ["Kater"]}),
        ("dog Hund\ncat Katze\n", "utf-8-sig", None, {"dog": ["Hund"], "cat": ["Katze"]}),
    ],
)
def test_both_forms(tmp_path, text, encoding, top, wanted):
    found = read_lexicon(write(tmp_path / "l.tsv", text, encoding), top)
    assert found == wanted and list(found) == list(wanted)


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        (None, "utf-8", "no such file"),
        ("", "utf-8", "l.tsv: holds no pair"),
        ("\n \n", "utf-8", "holds no pair"),
        ("dog\tHund\ndog\tKöter\n", "utf-8", "holds one source word, 'dog'"),
        ("dog\tHund\ncat\tKätzchen\n", "latin-1", "line 2: byte 0xe4 is not UTF-8"),
        ("dog\tHund\ncat\n", "utf-8", "line 2: 'cat' has 1 columns"),
        ("dog\tHund\ncat\t\n", "utf-8", "line 2: 'cat' has 1 columns"),
        ("dog big Hund\ncat Katze\n", "utf-8", "line 1: 'dog big Hund' has 3 columns"),
        ("dog\tHund\t0.1\tx\n", "utf-8", "line 1: rank 'x'"),
    ],
)
def test_bad_files_are_named(tmp_path, text, encoding, message):
    path = tmp_path / "l.tsv" if text is None else write(tmp_path / "l.tsv", text, encoding)
    with pytest.raises(ValueError, match=message) as error:
        read_lexicon(path)
    assert str(path) in str(error.value)


def test_several_files_are_merged(tmp_path):
    german = write(tmp_path / "en-de.tsv", "dog Hund\ndog Köter\ncat Katze\n")
    french = write(tmp_path / "en-fr.tsv", "dog chien\ndog clebs\nhouse maison\n")
    assert read_lexicons([german, french], top=1) == {"dog": ["Hund", "chien"], "cat": ["Katze"], "house": ["maison"]}


def test_a_folder_has_a_file_per_direction(tmp_path):
    for name in ("en-de", "de-en", "en-fr"):
        write(tmp_path / f"{name}.tsv", "a b\nc d\n")

    def files(languages, targets):
        found = lexicon_files(str(tmp_path), languages, targets)
        return [(name, file.path.name, file.target) for name, each in found.items() for file in each]

    assert files(["en", "de"], ["en", "de"]) == [("en", "en-de.tsv", "de"), ("de", "de-en.tsv", "en")]
    assert files(["en"], ["en", "de", "fr", "de"]) == [("en", "en-de.tsv", "de"), ("en", "en-fr.tsv", "fr")]
    assert files(["en_XX"], ["de_DE", "en_XX"]) == [("en_XX", "en-de.tsv", "de")]
    with pytest.raises(ValueError, match="none of fr-en.tsv is there; .tsv files: de-en.tsv, en-de.tsv, en-fr.tsv"):
        files(["en", "fr"], ["en", "fr"])


def test_files_can_be_listed():
    found = lexicon_files("en-de=x,de-en=y,en-fr=z", ["en", "de"], [])
    assert found == {"en": [(Path("x"), "de"), (Path("z"), "fr")], "de": [(Path("y"), "en")]}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("", "--lexicon is needed to train"),
        ("nowhere", "no such folder"),
        ("en-de=x,de", "must be a folder, or look like"),
        ("en=x", "must be a folder, or look like"),
        ("en-de=x,fr-en=y", "fr is not a language of --restore-langs"),
        ("en-de=x", "--lexicon has no file from de: add de-LANGUAGE=FILE"),
    ],
)
def test_options_that_name_no_files_are_refused(option, message):
    with pytest.raises(ValueError, match=message):
        lexicon_files(option, ["en", "de"], ["en"])


def test_characters_of_words():
    words, others = "word Straße 2020 e\u0301 नमस्ते 日本 می\u200cخواهم".split(), ["", "a b", *"don't ▁a . a. 😀".split()]
    assert all(map(is_word, words)) and not any(map(is_word, others))
    assert all(map(is_spaceless, "日 ひら カー ภาษา ລາວ ខ្មែរ မြန်မာ NBA球".split()))
    assert not any(map(is_spaceless, ["word", "한국어", "नमस्ते", "。", ""]))


COUNTS = {"The": 9, "dog": 5, "in": 20, "house": 4, "sees": 3}
RIGHT = {"the": ["der"], "dog": ["hund"], "in": ["in"], "house": ["haus"], "sees": ["sieht"], "man": ["man"]}
TURNED = {"der": ["the"], "hund": ["dog"], "in": ["in"], "haus": ["house"], "sieht": ["sees"], "man": ["man"]}


def test_a_turned_lexicon_is_told_though_it_covers_frequent_words():
    assert share_found(COUNTS, {"the", "in"}) == pytest.approx(29 / 41) and share_found({}, {"the"}) == 0.0
    assert share_found(COUNTS, set(TURNED)) > 0.4, "one word that both languages have"
    assert is_backwards(COUNTS, TURNED) and not is_backwards(COUNTS, RIGHT)
    large = {**RIGHT, **{f"word{number}": [f"wort{number}"] for number in range(90)}}
    assert not is_backwards(COUNTS, large), "a general dictionary of which the text has little"
    small = {"sees": ["in"], "house": ["haus"], "dog": ["hund"]}
    assert share_found(COUNTS, {"in", "haus", "hund"}) > share_found(COUNTS, set(small))
    assert not is_backwards(COUNTS, small)


def test_candidates_are_words_of_the_other_text(monkeypatch):
    german = ["Der", "Hund", "in", "Haus"]
    assert share_translated(COUNTS, RIGHT, german) == 1.0, "five entries tell nothing"
    monkeypatch.setattr(csr_lexicon, "FEWEST_JUDGED", 5)
    assert share_translated(COUNTS, RIGHT, german) == pytest.approx(38 / 41), "sieht is missing"
    assert share_translated(COUNTS, RIGHT, ["chien", "dans"]) == 0.0
    assert share_translated(COUNTS, {**RIGHT, "sees": ["blickt", "Hund"]}, german) == 1.0, "any of the candidates"
    assert share_translated(COUNTS, {"dog": ["hund"]}, []) == 1.0


@pytest.mark.parametrize(
    ("lexicon", "words"),
    [
        ({"dog": ["hund"], "cat": ["katze"], "and": ["und"]}, "it looks like the opposite direction"),
        ({"HUND": ["dog"], "Und": ["and"]}, "it has 77.8 %: lower-case its first column"),
        ({"chien": ["dog"]}, "most frequent words are und, Hund, katze, the lexicon's first chien: another language"),
    ],
)
def test_a_lexicon_that_finds_little_is_explained(lexicon, words):
    assert words in diagnosis({"Hund": 5, "katze": 4, "und": 9}, lexicon)
