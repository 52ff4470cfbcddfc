"""Test segmenters: the file's name tells their kind, and their pieces are those of the library."""

import json

import pytest

from fairseq_plugins.analysis.segmenters import load_segmenter

SYMBOLS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_vocabulary(folder, *pieces):
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in (*SYMBOLS, *pieces)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("pieces", "config", "expected"),
    [
        (["Haus", "##tür", "haus", "tur"], None, ["Haus", "##tür"]),
        (["haus", "##tur"], None, ["haus", "##tur"]),  # no capitals: uncased, which drops accents
        (["Haus", "haus", "##tur"], {"do_lower_case": True}, ["haus", "##tur"]),
        (["haus", "##tur"], {"do_lower_case": False}, ["[UNK]"]),
    ],
)
def test_wordpieces_follow_the_case_of_their_vocabulary(tmp_path, pieces, config, expected):
    pytest.importorskip("tokenizers", reason="comes with transformers, an extra")
    path = write_vocabulary(tmp_path, *pieces)
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_segmenter(path)("Haustür") == expected


def test_a_fast_tokenizer_adds_no_special_symbols(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="comes with transformers, an extra")
    model = tokenizers.models.Unigram([("<unk>", 0.0), ("▁a", -1.0), ("b", -1.0)], unk_id=0)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    pair = [("<unk>", 0)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("<unk> $A", None, pair)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load_segmenter(str(tmp_path / "tokenizer.json"))("ab a") == ["▁a", "b", "▁a"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", "{}", "not a tokenizer.json"),
        ("vocab.txt", "a\n", "not the vocab.txt of a BERT"),
        ("spiece.model", "", "not a sentencepiece model"),
    ],
)
def test_another_file_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"--sentencepiece .*{name}.*{reason}"):
        load_segmenter(str(tmp_path / name))
