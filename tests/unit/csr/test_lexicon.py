"""Test lexicon files: both forms, merged files, files of a folder or a list, bad input."""

from pathlib import Path

import pytest

from fairseq_plugins.csr.lexicon import LexiconFile, locate_lexicons, read_lexicon, read_lexicons


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


PLAIN = "dog\tHund\ncat Katze\n\ndog\tKöter\ndog\tHund\n"
SPACES = "New York\tNeu York\na b\na c\n"
RANKED = "dog\tKöter\t0.2\t2\r\ndog\tHund\t0.9\t1\r\ncat\tKatze\t0.5\t10\r\ncat\tKater\t.4\t9\r\n"


@pytest.mark.cases(
    "text encoding top lexicon",
    (PLAIN, "utf-8", None, {"dog": ["Hund", "Köter"], "cat": ["Katze"]}),
    (PLAIN, "utf-8-sig", None, {"dog": ["Hund", "Köter"], "cat": ["Katze"]}),
    (SPACES, "utf-8", 1, {"New York": ["Neu York"], "a": ["b"]}),
    (RANKED, "utf-8", None, {"dog": ["Hund", "Köter"], "cat": ["Kater", "Katze"]}),
    (RANKED, "utf-8", 1, {"dog": ["Hund"], "cat": ["Kater"]}),
)
def test_both_forms(tmp_path, text, encoding, top, lexicon):
    content = read_lexicon(write(tmp_path / "l.tsv", text, encoding), top)
    assert content == lexicon and list(content) == list(lexicon)


@pytest.mark.cases(
    "text encoding message",
    ("", "utf-8", "l.tsv: holds no pair"),
    ("dog\tHund\ndog\tKöter\n", "utf-8", "l.tsv: .* one source word, 'dog'"),
    ("dog\tHund\ncat\tKätzchen\n", "latin-1", "l.tsv.*line 2: byte 0xe4"),
    ("dog\tHund\ncat\t\n", "utf-8", "l.tsv.*line 2: 'cat'"),
    ("dog big Hund\ncat Katze\n", "utf-8", "l.tsv.*line 1: 'dog big Hund'"),
    ("dog\tHund\t0.1\tx\n", "utf-8", "l.tsv.*line 1: rank 'x'"),
)
def test_bad_files_are_named(tmp_path, text, encoding, message):
    with pytest.raises(ValueError, match=message):
        read_lexicon(write(tmp_path / "l.tsv", text, encoding))


def test_several_files_are_merged(tmp_path):
    texts = ("dog Hund\ndog Köter\ncat Katze\n", "dog chien\ndog clebs\nhouse maison\n")
    files = [LexiconFile(write(tmp_path / f"{n}.tsv", text), "xx") for n, text in enumerate(texts)]
    merged = {"dog": ["Hund", "chien"], "cat": ["Katze"], "house": ["maison"]}
    assert read_lexicons(files, top=1) == merged
    with pytest.raises(ValueError, match="missing.tsv"):
        read_lexicons([LexiconFile(tmp_path / "missing.tsv", "xx")])


def test_a_folder_has_a_file_per_direction(tmp_path):
    for name in ("en-de", "de-en", "en-fr"):
        write(tmp_path / f"{name}.tsv", "a b\nc d\n")

    def locate(languages, targets):
        files = locate_lexicons(str(tmp_path), languages.split(), targets.split())
        return {language: [file.path.name for file in row] for language, row in files.items()}

    assert locate("en de", "en de") == {"en": ["en-de.tsv"], "de": ["de-en.tsv"]}
    assert locate("en", "en de fr de") == {"en": ["en-de.tsv", "en-fr.tsv"]}
    assert locate("en_XX", "de_DE en_XX") == {"en_XX": ["en-de.tsv"]}
    with pytest.raises(ValueError, match="fr-en.tsv.*: de-en.tsv, en-de.tsv, en-fr.tsv"):
        locate("en fr", "en fr")


def test_files_can_be_listed():
    files = locate_lexicons("en-de=x,de-en=y,en-fr=z", ["en", "de"], [])
    assert files == {"en": [(Path("x"), "de"), (Path("z"), "fr")], "de": [(Path("y"), "en")]}


@pytest.mark.cases(
    "option message",
    ("", "--lexicon is needed"),
    ("nowhere", "--lexicon nowhere"),
    ("en-de=x,de", "--lexicon .*de"),
    ("en=x", "--lexicon .*en=x"),
    ("en-de=x,fr-en=y", "fr is not a language of --restore-langs"),
    ("en-de=x", "--lexicon has no file from de"),
)
def test_malformed_options_are_refused(option, message):
    with pytest.raises(ValueError, match=message):
        locate_lexicons(option, ["en", "de"], ["en"])
