"""Row i of an embedding means entry i of the dictionary that is written for it; differences of size are explained."""

import re

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder, write_dictionary
from fairseq_plugins.checkpoints.fitting import explain_difference
from fairseq_plugins.checkpoints.tokenizers import tokenizer_entries
from fairseq_plugins.checkpoints.vocabulary import languages_of, read_dictionary
from tests import nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, SPECIAL, tags


@pytest.fixture
def hf():
    """The package, imported by the tests that need it: that takes seconds."""
    import transformers

    return transformers


def in_fairseq(entry, kind):
    """How fairseq writes an entry of a Hugging Face tokenizer."""
    if re.fullmatch(r"[a-z]{2,3}_[A-Z][A-Z]|[a-z]{3}_[A-Z][a-z]{3}", entry):
        return f"__{entry}__" if kind == "nllb" else f"[{entry}]"
    return entry


def tokenizer(hf, kind, folder):
    """A tokenizer of transformers around a tiny sentencepiece model, saved into the folder as ``tokenizer.json``."""
    pieces = nlu_builders.write_sentencepiece(folder / "pieces")[3:]
    vocabulary = [(entry, 0.0) for entry in [*SPECIAL, *pieces]]
    if kind == "nllb":
        own = hf.NllbTokenizer(vocab={entry: index for index, (entry, _) in enumerate(vocabulary)}, merges=[])
    elif kind == "xlmr":
        own = hf.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)])
    elif kind == "mbart50":  # takes the pieces as sentencepiece has them
        own = hf.MBart50Tokenizer(vocab=[(entry, 0.0) for entry in ["<unk>", "<s>", "</s>", *pieces]])
    else:
        own = hf.MBartTokenizer(vocab=vocabulary)
    own.save_pretrained(folder)
    return own


@pytest.mark.parametrize("kind", ["mbart", "mbart50", "nllb", "xlmr"])
def test_entries_are_those_of_transformers(tmp_path, hf, kind):
    own = tokenizer(hf, kind, tmp_path)
    rows = len(own) + 2  # as NLLB's: rows that nothing names
    nlu_builders.huggingface(hf, kind.replace("50", ""), tmp_path, rows)
    actual = read_encoder(tmp_path)
    expected = [in_fairseq(entry, kind) for entry in own.convert_ids_to_tokens(list(range(len(own))))]
    assert list(actual.entries[: len(own)]) == expected
    assert all(entry.startswith("madeupword") for entry in actual.entries[len(own) :])
    if kind == "xlmr":
        assert actual.languages is None
    else:
        assert len(actual.languages) == len(set(actual.languages)) == len(languages_of(expected)) > 20
    write_dictionary(tmp_path, tmp_path / "dict.txt")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == list(actual.entries)


@pytest.mark.parametrize("file", ["special_tokens_map.json", "tokenizer_config.json"])
def test_entries_of_a_sentencepiece_model_and_stored_codes(tmp_path, hf, file):
    """Codes in their stored order, which is not the alphabet's; a piece that looks like a code stays a piece."""
    pieces = nlu_builders.write_sentencepiece(tmp_path)
    codes = ["en_XX", "ar_AR", "de_DE"]
    base = 4 + len(pieces) - 3
    stored = [codes[0], {"content": codes[1]}, codes[2]]
    nlu_builders.write_json(tmp_path / file, {"additional_special_tokens": stored})
    nlu_builders.huggingface(hf, "mbart", tmp_path, base + 4)
    actual = read_encoder(tmp_path)
    assert list(actual.entries) == [*SPECIAL, *pieces[3:], *tags(codes), "<mask>"]
    assert actual.languages == tuple(codes)


def test_without_a_list_of_languages_no_row_is_named(tmp_path, hf):
    """The row after the pieces is a language's, not the mask's."""
    pieces = nlu_builders.write_sentencepiece(tmp_path)
    nlu_builders.huggingface(hf, "mbart", tmp_path, 4 + len(pieces) - 3 + 26)
    actual = read_encoder(tmp_path)
    assert actual.languages is None
    assert actual.entries == ()
    with pytest.raises(CheckpointError):
        write_dictionary(tmp_path, tmp_path / "dict.txt")
    assert not (tmp_path / "dict.txt").exists()
    base = 4 + len(pieces) - 3  # of models that have none, or whose languages are given
    assert tokenizer_entries(tmp_path, None, base + 2)[base:] == ["madeupword0000", "madeupword0001"]
    assert tokenizer_entries(tmp_path, None, base + 1)[base:] == ["<mask>"]
    assert tokenizer_entries(tmp_path, "[{}]", base + 3, ["en_XX"])[base:] == ["[en_XX]", "<mask>", "madeupword0000"]


@pytest.mark.parametrize("listed", [True, False])
def test_entries_of_an_m2m100_are_those_of_transformers(tmp_path, hf, listed):
    """``vocab.json`` in fairseq's order, a sentencepiece model in another one, unnamed rows at the end.

    The released folder lists its languages as special tokens; what transformers 5 saves does not, and they have to be given.
    """
    pieces = nlu_builders.write_sentencepiece(tmp_path, name="spm.model")[3:]
    order = [*SPECIAL, *pieces[::-1]]
    nlu_builders.write_json(tmp_path / "all.json", {entry: index for index, entry in enumerate(order)})
    own = hf.M2M100Tokenizer(str(tmp_path / "all.json"), str(tmp_path / "spm.model"))
    languages, named = tuple(own.lang_code_to_token), len(order) + 100
    folder = tmp_path / "saved"
    folder.mkdir()
    own.save_pretrained(folder)
    nlu_builders.huggingface(hf, "nllb", folder, named + own.num_madeup_words)
    assert (folder / "vocab.json").is_file() and not (folder / "tokenizer.json").exists()
    if listed:
        special = {"additional_special_tokens": [f"__{code}__" for code in languages]}
        nlu_builders.write_json(folder / "special_tokens_map.json", special)
        actual = read_encoder(folder)
        assert actual.languages == languages
        assert write_dictionary(folder, tmp_path / "dict.txt") == list(actual.entries)
    else:
        assert read_encoder(folder).entries == ()
        write_dictionary(folder, tmp_path / "dict.txt", languages=languages)
    entries = Dictionary.load(str(tmp_path / "dict.txt")).symbols
    assert entries[:named] == own.convert_ids_to_tokens(list(range(named)))
    assert all(entry.startswith("madeupword") for entry in entries[named:])


# ---- BERT's order. ----


def test_berts_rows_go_to_the_places_of_fairseq(tmp_path):
    folder, symbols = nlu_builders.write_bert(tmp_path)
    theirs = (folder / "vocab.txt").read_text().splitlines()
    actual = read_encoder(folder)
    assert list(actual.entries) == [*SPECIAL, *symbols]
    stored = torch.load(folder / "pytorch_model.bin")["bert.embeddings.word_embeddings.weight"]
    names = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
    for row, entry in enumerate(actual.entries):
        assert torch.equal(actual.tensors["embed_tokens.weight"][row], stored[theirs.index(names.get(entry, entry))])
    write_dictionary(folder, tmp_path / "dict.txt")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == list(actual.entries)


def test_positions_of_bert_start_behind_the_padding(tmp_path):
    folder, _ = nlu_builders.write_bert(tmp_path)
    table = read_encoder(folder).tensors["embed_positions.weight"]
    stored = torch.load(folder / "pytorch_model.bin")["bert.embeddings.position_embeddings.weight"]
    assert torch.equal(table[2:], stored) and not table[:2].any()


def test_a_fast_tokenizer_of_bert_gives_the_same(tmp_path, hf):
    folder, _ = nlu_builders.write_bert(tmp_path)
    expected = read_encoder(folder)
    entries = (folder / "vocab.txt").read_text().splitlines()
    hf.BertTokenizer(vocab={entry: index for index, entry in enumerate(entries)}).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    assert (folder / "tokenizer.json").is_file()
    actual = read_encoder(folder)
    assert actual.entries == expected.entries
    assert torch.equal(actual.tensors["embed_tokens.weight"], expected.tensors["embed_tokens.weight"])


# ---- fairseq's dictionaries. ----


def test_the_command_writes_the_dictionary(tmp_path, capsys):
    nlu_builders.mbart_cc25(tmp_path)
    assert main(["dictionary", str(tmp_path), str(tmp_path / "whole.txt")]) == 0
    assert read_dictionary(tmp_path / "whole.txt") == [*SPECIAL, *PIECES, *tags(LANGUAGES), "<mask>"]
    assert read_encoder(tmp_path).entries == (*SPECIAL, *PIECES, *tags(LANGUAGES), "<mask>")
    (tmp_path / "dict.txt").unlink()
    with pytest.raises(SystemExit) as stopped:
        main(["dictionary", str(tmp_path), str(tmp_path / "again.txt")])
    assert stopped.value.code == 2 and "nothing beside it tells its entries" in capsys.readouterr().err


def test_a_dictionary_is_read_as_fairseq_reads_it(tmp_path):
    lines = ["p1 10", "\u3000 3", "a b 2", "é\u2028x 1", "<s> 4 #fairseq:overwrite", "a c 6 #fairseq:overwrite", " 5"]
    (tmp_path / "dict.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_dictionary(tmp_path / "dict.txt") == Dictionary.load(str(tmp_path / "dict.txt")).symbols
    (tmp_path / "dict.txt").write_text("p1 10\np2\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="line 2: 'p2', expected 'symbol count'"):
        read_dictionary(tmp_path / "dict.txt")


def test_languages_of_a_dictionary():
    entries = [*SPECIAL, "[is]", "p1", "[x1]", "__xx__y", *tags(["de_DE", "en_XX"]), "__eng_Latn__", "<mask>"]
    assert languages_of(entries) == ("is", "de_DE", "en_XX", "eng_Latn")
    assert languages_of(entries, languages=["en_XX"]) == ("de_DE", "en_XX", "eng_Latn")
    assert languages_of(entries, languages=["fr_XX"])[0] == "is"
    assert languages_of(["[de_DE]", "[en_XX]"], languages=["en_XX"]) == ("de_DE", "en_XX")


# ---- Rows that do not fit. ----


def test_differences_are_explained():
    assert "one entry more is probably <mask>" in explain_difference(1) and "one entry fewer" in explain_difference(-1)
    assert explain_difference(2) == explain_difference(-25) == ""


UNIGRAM = {"type": "Unigram", "vocab": [["a", 0.0]]}
DAMAGED = [  # the file, its content, what the error says of it
    ("vocab.json", {"a": 0, "b": 10**15}, "indices below the 8 rows"),
    (
        "tokenizer.json",
        {"model": UNIGRAM, "added_tokens": [{"content": "b", "id": 10**15}]},
        "indices below the 8 rows",
    ),
    ("tokenizer.json", {"model": UNIGRAM, "added_tokens": None}, "added_tokens with content and id"),
    ("tokenizer.json", {"model": UNIGRAM, "added_tokens": [{"content": "b"}]}, "added_tokens with content and id"),
    ("tokenizer.json", {"model": {"vocab": [0]}}, "model.vocab"),
    ("tokenizer.json", {"model": None}, "model.vocab"),
]


@pytest.mark.parametrize(("file", "content", "message"), DAMAGED)
def test_a_damaged_tokenizer_is_refused(file, content, message, tmp_path):
    nlu_builders.write_json(tmp_path / file, content)
    with pytest.raises(CheckpointError, match=rf"{file}: expected .*{message}"):
        tokenizer_entries(tmp_path, None, 8)
