"""Lexicon files: both forms, merged files, and messages that name file and line."""

from pathlib import Path

import pytest

from fairseq_plugins.data.csr_lexicon import (
    is_spaceless,
    is_word,
    lexicon_files,
    lexicon_targets,
    read_lexicon,
    read_lexicons,
)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """A file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def test_muse_form_is_ranked_by_order(tmp_path: Path) -> None:
    path = write(tmp_path / "l.tsv", "dog\tHund\ncat Katze\n\ndog\tKöter\ndog\tHund\nNew York\tNeu York\n")
    assert read_lexicon(path) == {"dog": ["Hund", "Köter"], "cat": ["Katze"], "New York": ["Neu York"]}
    assert read_lexicon(path, top=1)["dog"] == ["Hund"]


def test_own_form_is_ranked_by_its_fourth_column(tmp_path: Path) -> None:
    path = write(
        tmp_path / "l.tsv", "dog\tKöter\t0.2\t2\r\ndog\tHund\t0.9\t1\r\ncat\tKatze\t0.5\t10\r\ncat\tKater\t.4\t9\r\n"
    )
    assert read_lexicon(path) == {"dog": ["Hund", "Köter"], "cat": ["Kater", "Katze"]}
    assert read_lexicon(path, top=1) == {"dog": ["Hund"], "cat": ["Kater"]}, "the first by rank, wherever it stands"


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path: Path) -> None:
    assert list(read_lexicon(write(tmp_path / "l", "dog Hund\ncat Katze\n", "utf-8-sig"))) == ["dog", "cat"]


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
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
def test_bad_files_are_named(tmp_path: Path, text: str, encoding: str, message: str) -> None:
    path = write(tmp_path / "l.tsv", text, encoding)
    with pytest.raises(ValueError, match=message) as error:
        read_lexicon(path)
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        read_lexicon(tmp_path / "none.tsv")


def test_several_files_are_merged(tmp_path: Path) -> None:
    german = write(tmp_path / "en-de.tsv", "dog Hund\ndog Köter\ncat Katze\n")
    french = write(tmp_path / "en-fr.tsv", "dog chien\ndog clebs\nhouse maison\n")
    assert read_lexicons([german, french], top=1) == {"dog": ["Hund", "chien"], "cat": ["Katze"], "house": ["maison"]}


# ---- The option. ----


def test_a_folder_has_a_file_a_direction(tmp_path: Path) -> None:
    for name in ("en-de", "de-en", "en-fr"):
        write(tmp_path / f"{name}.tsv", "a b\nc d\n")
    wanted = {"en": [tmp_path / "en-de.tsv"], "de": [tmp_path / "de-en.tsv"]}
    assert lexicon_files(str(tmp_path), ["en", "de"], ["en", "de"]) == wanted
    wanted_of_one = {"en": [tmp_path / "en-de.tsv", tmp_path / "en-fr.tsv"]}
    assert lexicon_files(str(tmp_path), ["en"], ["en", "de", "fr", "de"]) == wanted_of_one
    assert list(lexicon_files(str(tmp_path), ["en_XX", "de_DE"], ["de_DE", "en_XX"]).values()) == list(wanted.values())
    with pytest.raises(ValueError, match="none of fr-en.tsv is there; .tsv files: de-en.tsv, en-de.tsv, en-fr.tsv"):
        lexicon_files(str(tmp_path), ["en", "fr"], ["en", "fr"])
    with pytest.raises(ValueError, match="no such folder"):
        lexicon_files(str(tmp_path / "none"), ["en", "de"], ["en"])


def test_files_can_be_listed() -> None:
    assert lexicon_files("en-de=x,de-en=y,en-fr=z", ["en", "de"], []) == {
        "en": [Path("x"), Path("z")],
        "de": [Path("y")],
    }
    for option, message in {
        "": "--lexicon is needed to train",
        "en-de=x,de": "must be a folder, or look like",
        "en=x": "must be a folder, or look like",
        "en-de=x,fr-en=y": "fr is not a language of --restore-langs",
        "en-de=x": "--lexicon has no file from de: add de-LANGUAGE=FILE",
    }.items():
        with pytest.raises(ValueError, match=message):
            lexicon_files(option, ["en", "de"], [])


# ---- Characters. ----


def test_characters_of_words() -> None:
    for text in ("word", "Straße", "2020", "e\u0301", "नमस्ते", "日本", "می\u200cخواهم"):
        assert is_word(text), text
    for text in ("", "don't", "a b", "▁a", ".", "a.", "😀"):
        assert not is_word(text), text
    for text in ("日", "ひら", "カー", "ภาษา", "ລາວ", "ខ្មែរ", "မြန်မာ", "NBA球"):
        assert is_spaceless(text), text
    for text in ("word", "한국어", "नमस्ते", "。", ""):
        assert not is_spaceless(text), text


def test_the_languages_that_files_go_into(tmp_path: Path) -> None:
    for name in ("en-de", "de-en", "en_XX-fr_XX"):
        (tmp_path / f"{name}.tsv").write_text("a b\nc d\n", encoding="utf-8")
    files = lexicon_files(str(tmp_path), ["en_XX"], ["de", "fr_XX"])
    assert lexicon_targets(str(tmp_path), files["en_XX"]) == {"de", "fr_XX"}
    option = "en-de=x,de-en=y,en-fr=z"
    assert lexicon_targets(option, lexicon_files(option, ["en", "de"], [])["en"]) == {"de", "fr"}
