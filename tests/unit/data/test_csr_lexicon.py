"""Lexicon files: both forms, merged files, messages that name file and line; and what is wrong with a lexicon for a text."""

from pathlib import Path

import pytest

from fairseq_plugins.data.csr_lexicon import is_spaceless, is_word, lexicon_files, read_lexicon, read_lexicons


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


OWN = "dog\tKöter\t0.2\t2\r\ndog\tHund\t0.9\t1\r\ncat\tKatze\t0.5\t10\r\ncat\tKater\t.4\t9\r\n"


def test_both_forms(tmp_path):
    two = {"dog": ["Hund", "Köter"], "cat": ["Katze"]}
    for text, encoding, top, wanted in (
        ("dog\tHund\ncat Katze\n\ndog\tKöter\ndog\tHund\n", "utf-8", None, two),
        ("New York\tNeu York\na b\na c\n", "utf-8", 1, {"New York": ["Neu York"], "a": ["b"]}),
        (OWN, "utf-8", None, {"dog": ["Hund", "Köter"], "cat": ["Kater", "Katze"]}),
        (OWN, "utf-8", 1, {"dog": ["Hund"], "cat": ["Kater"]}),
        ("dog Hund\ncat Katze\n", "utf-8-sig", None, {"dog": ["Hund"], "cat": ["Katze"]}),
    ):
        found = read_lexicon(write(tmp_path / "l.tsv", text, encoding), top)
        assert found == wanted and list(found) == list(wanted)


def test_bad_files_are_named(tmp_path):
    for text, encoding, message in (
        ("", "utf-8", "l.tsv: holds no pair"),
        ("dog\tHund\ndog\tKöter\n", "utf-8", "l.tsv: holds one source word, 'dog'"),
        ("dog\tHund\ncat\tKätzchen\n", "latin-1", "l.tsv.*line 2: byte 0xe4 is not UTF-8"),
        ("dog\tHund\ncat\t\n", "utf-8", "l.tsv.*line 2: 'cat' has 1 columns"),
        ("dog big Hund\ncat Katze\n", "utf-8", "l.tsv.*line 1: 'dog big Hund' has 3 columns"),
        ("dog\tHund\t0.1\tx\n", "utf-8", "l.tsv.*line 1: rank 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_lexicon(write(tmp_path / "l.tsv", text, encoding))
    with pytest.raises(ValueError, match="missing.tsv.*no such file"):
        read_lexicon(tmp_path / "missing.tsv")


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
    for option, message in (
        ("nowhere", "no such folder"),
        ("en-de=x,de", "must be a folder, or look like"),
        ("en=x", "must be a folder, or look like"),
        ("en-de=x,fr-en=y", "fr is not a language of --restore-langs"),
        ("en-de=x", "--lexicon has no file from de: add de-LANGUAGE=FILE"),
    ):
        with pytest.raises(ValueError, match=message):
            lexicon_files(option, ["en", "de"], ["en"])


def test_characters_of_words():
    words, others = "word Straße 2020 e\u0301 नमस्ते 日本 می\u200cخواهم".split(), ["", "a b", *"don't ▁a . a. 😀".split()]
    assert all(map(is_word, words)) and not any(map(is_word, others))
    assert all(map(is_spaceless, "日 ひら カー ภาษา ລາວ ខ្មែរ မြန်မာ NBA球".split()))
    assert not any(map(is_spaceless, ["word", "한국어", "नमस्ते", "。", ""]))
