"""Test vocabularies: entry i of a written dictionary belongs to row i of the embedding."""

import re

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder, write_dictionary
from fairseq_plugins.checkpoints.tokenizers import tokenizer_entries
from fairseq_plugins.checkpoints.vocabulary import languages_of, read_dictionary
from tests import nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, SPECIAL, tags


@pytest.fixture(scope="module")
def hf():
    """Import transformers only if a test needs it, because that takes seconds."""
    import transformers

    return transformers


def symbols_of(path):
    """Return the symbols of a dictionary as fairseq reads them."""
    return Dictionary.load(str(path)).symbols


def in_fairseq(entry, kind):
    """Return an entry of a Hugging Face tokenizer as fairseq writes it."""
    if re.fullmatch(r"[a-z]{2,3}_[A-Z][A-Z]|[a-z]{3}_[A-Z][a-z]{3}", entry):
        return f"__{entry}__" if kind == "nllb" else f"[{entry}]"
    return entry


def write_tokenizer(hf, kind, folder):
    """Write a ``tokenizer.json`` of transformers around a tiny sentencepiece model."""
    pieces = nlu_builders.write_sentencepiece(folder / "pieces")[3:]
    vocabulary = [(entry, 0.0) for entry in [*SPECIAL, *pieces]]
    if kind == "nllb":
        numbers = {entry: index for index, (entry, _) in enumerate(vocabulary)}
        tokenizer = hf.NllbTokenizer(vocab=numbers, merges=[])
    elif kind == "xlmr":
        tokenizer = hf.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)])
    elif kind == "mbart50":  # takes the pieces in the order of sentencepiece
        entries = ["<unk>", "<s>", "</s>", *pieces]
        tokenizer = hf.MBart50Tokenizer(vocab=[(entry, 0.0) for entry in entries])
    else:
        tokenizer = hf.MBartTokenizer(vocab=vocabulary)
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("kind", ["mbart", "mbart50", "nllb", "xlmr"])
def test_entries_are_those_of_transformers(tmp_path, hf, kind):
    tokenizer = write_tokenizer(hf, kind, tmp_path)
    count = len(tokenizer)
    nlu_builders.huggingface(hf, kind.replace("50", ""), tmp_path, count + 2)
    actual = read_encoder(tmp_path)
    tokens = tokenizer.convert_ids_to_tokens(list(range(count)))
    expected = [in_fairseq(token, kind) for token in tokens]
    assert list(actual.entries) == expected
    if kind == "xlmr":
        assert actual.languages is None
    else:
        languages = actual.languages
        assert len(languages) == len(set(languages)) == len(languages_of(expected)) > 20
    write_dictionary(tmp_path, tmp_path / "dict.txt")
    unnamed = ["madeupword0000", "madeupword0001"]
    assert symbols_of(tmp_path / "dict.txt") == [*actual.entries, *unnamed]


@pytest.mark.parametrize("file", ["special_tokens_map.json", "tokenizer_config.json"])
def test_stored_language_codes_follow_the_pieces(tmp_path, hf, file):
    """Keep the stored order of the codes, which is not alphabetical."""
    pieces = nlu_builders.write_sentencepiece(tmp_path)[3:]
    codes = ["en_XX", "ar_AR", "de_DE"]
    special = [codes[0], {"content": codes[1]}, codes[2]]
    nlu_builders.write_json(tmp_path / file, {"additional_special_tokens": special})
    nlu_builders.huggingface(hf, "mbart", tmp_path, 4 + len(pieces) + 4)
    actual = read_encoder(tmp_path)
    assert list(actual.entries) == [*SPECIAL, *pieces, *tags(codes), "<mask>"]
    assert actual.languages == tuple(codes)


def test_rows_have_no_names_without_a_list_of_languages(tmp_path, hf):
    """The first row after the pieces may be a language's or the mask's."""
    count = 4 + len(nlu_builders.write_sentencepiece(tmp_path)[3:])
    nlu_builders.huggingface(hf, "mbart", tmp_path, count + 26)
    actual = read_encoder(tmp_path)
    assert actual.languages is None and actual.entries == ()
    with pytest.raises(CheckpointError):
        write_dictionary(tmp_path, tmp_path / "dict.txt")
    assert not (tmp_path / "dict.txt").exists()
    for style, languages, expected in (
        (None, (), ["<mask>"]),  # a model without languages
        ("[{}]", ["en_XX"], ["[en_XX]", "<mask>"]),
    ):
        for unnamed in (0, 2):
            rows = count + len(expected) + unnamed
            assert tokenizer_entries(tmp_path, style, rows, languages)[count:] == expected


@pytest.mark.parametrize("listed", [True, False])
def test_entries_of_an_m2m100_are_those_of_transformers(tmp_path, hf, listed):
    """vocab.json has fairseq's order, the sentencepiece model another, and the last rows no names.

    The released folder lists its languages. A folder that transformers 5 saves does not, so they
    have to be given.
    """
    folder = tmp_path / "saved"
    folder.mkdir()
    pieces = nlu_builders.write_sentencepiece(tmp_path, name="spm.model")[3:]
    numbers = {entry: index for index, entry in enumerate([*SPECIAL, *pieces[::-1]])}
    nlu_builders.write_json(tmp_path / "all.json", numbers)
    tokenizer = hf.M2M100Tokenizer(str(tmp_path / "all.json"), str(tmp_path / "spm.model"))
    tokenizer.save_pretrained(folder)
    languages, count = tuple(tokenizer.lang_code_to_token), len(numbers) + 100
    nlu_builders.huggingface(hf, "nllb", folder, count + tokenizer.num_madeup_words)
    assert (folder / "vocab.json").is_file() and not (folder / "tokenizer.json").exists()
    if listed:
        special = {"additional_special_tokens": tags(languages, "__{}__")}
        nlu_builders.write_json(folder / "special_tokens_map.json", special)
        actual = read_encoder(folder)
        assert actual.languages == languages
        names = write_dictionary(folder, tmp_path / "dict.txt")
        assert names[: len(actual.entries)] == list(actual.entries)
    else:
        assert read_encoder(folder).entries == ()
        write_dictionary(folder, tmp_path / "dict.txt", languages=languages)
    entries = symbols_of(tmp_path / "dict.txt")
    assert entries[:count] == tokenizer.convert_ids_to_tokens(list(range(count)))
    assert all(entry.startswith("madeupword") for entry in entries[count:])


def test_a_bert_has_the_same_rows_with_either_tokenizer(tmp_path, hf):
    """Put special symbols first and <mask> last; tests of understanding compare the numbers."""
    folder, symbols = nlu_builders.write_bert(tmp_path)
    expected = read_encoder(folder)
    assert list(expected.entries) == [*SPECIAL, *symbols]
    write_dictionary(folder, tmp_path / "dict.txt")
    assert symbols_of(tmp_path / "dict.txt") == list(expected.entries)
    (tmp_path / "dict.txt").unlink()
    entries = (folder / "vocab.txt").read_text().splitlines()
    numbers = {entry: index for index, entry in enumerate(entries)}
    hf.BertTokenizer(vocab=numbers).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    assert (folder / "tokenizer.json").is_file()
    actual = read_encoder(folder)
    assert actual.entries == expected.entries
    words = "embed_tokens.weight"
    assert torch.equal(actual.tensors[words], expected.tensors[words])


# ---- fairseq's dictionaries. ----


def test_the_command_writes_the_dictionary(tmp_path, capsys):
    nlu_builders.mbart_cc25(tmp_path)
    expected = [*SPECIAL, *PIECES, *tags(LANGUAGES), "<mask>"]
    assert main(["dictionary", str(tmp_path), str(tmp_path / "entries.txt")]) == 0
    assert read_dictionary(tmp_path / "entries.txt") == expected
    assert list(read_encoder(tmp_path).entries) == expected
    (tmp_path / "dict.txt").unlink()
    with pytest.raises(SystemExit) as exit_info:
        main(["dictionary", str(tmp_path), str(tmp_path / "again.txt")])
    assert exit_info.value.code == 2
    assert "dict.LANG.txt" in capsys.readouterr().err


def test_a_dictionary_is_read_as_fairseq_reads_it(tmp_path):
    file = tmp_path / "dict.txt"
    lines = ["p1 10", "\u3000 3", "a b 2", "é\u2028x 1", "<s> 4 #fairseq:overwrite"]
    lines += ["a c 6 #fairseq:overwrite", " 5"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_dictionary(file) == symbols_of(file)
    file.write_text("p1 10\np2\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="line 2: 'p2'"):
        read_dictionary(file)


def test_languages_of_a_dictionary_are_recognised():
    codes = tags(["de_DE", "en_XX"])
    entries = [*SPECIAL, "[is]", "p1", "[x1]", "__xx__y", *codes, "__eng_Latn__", "<mask>"]
    assert languages_of(entries) == ("is", "de_DE", "en_XX", "eng_Latn")
    assert languages_of(entries, languages=["en_XX"]) == ("de_DE", "en_XX", "eng_Latn")
    assert languages_of(entries, languages=["fr_XX"])[0] == "is"
    assert languages_of(codes, languages=["en_XX"]) == ("de_DE", "en_XX")


def unigram(*added_tokens):
    model = {"type": "Unigram", "vocab": [["a", 0.0]]}
    return {"model": model, "added_tokens": list(added_tokens)}


@pytest.mark.cases(
    "file content message",
    ("vocab.json", {"a": 0, "b": 10**15}, "below the 8 rows"),
    ("tokenizer.json", unigram({"content": "b", "id": 10**15}), "below the 8 rows"),
    ("tokenizer.json", {**unigram(), "added_tokens": None}, "added_tokens"),
    ("tokenizer.json", unigram({"content": "b"}), "added_tokens"),
    ("tokenizer.json", {"model": {"vocab": [0]}}, "model.vocab"),
    ("tokenizer.json", {"model": None}, "model.vocab"),
)
def test_a_damaged_tokenizer_is_refused(file, content, message, tmp_path):
    nlu_builders.write_json(tmp_path / file, content)
    with pytest.raises(CheckpointError, match=rf"{file}: expected .*{message}"):
        tokenizer_entries(tmp_path, None, 8)
