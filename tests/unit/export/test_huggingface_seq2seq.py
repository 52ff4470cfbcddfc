"""Test encoder-decoders in transformers' layout: the same logits there and after import."""

import json
import random

import pytest
import sentencepiece
import torch
from fairseq import models

from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.export.huggingface import export_huggingface
from fairseq_plugins.export.huggingface_seq2seq import import_seq2seq
from tests import nlu_builders
from tests.unit.checkpoints import builders as files
from tests.unit.export.comparison import PAD, assert_close_in_text, load

MULTI = {"_name": "translation_multi_simple_epoch"}
PRE_NORM = nlu_builders.PRE_NORM


def assert_same_seq2seq(fairseq_model, hf_model, rows):
    """Compare the logits of an encoder-decoder of fairseq with those of transformers."""
    source, target = nlu_builders.tokens(rows), nlu_builders.tokens(rows, (5, 7, 2))
    with torch.no_grad():
        expected = fairseq_model(source, None, target)[0]
        outputs = hf_model(
            input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=target
        )
    assert_close_in_text(outputs.logits, expected, target)


def build_from_checkpoint(path, symbols):
    """Build a model by the options of its checkpoint, as fairseq does."""
    state = torch.load(path, weights_only=False)
    model = models.build_model(state["cfg"]["model"], nlu_builders.task_of(symbols))
    model.load_state_dict(state["model"])
    return model.eval()


@pytest.mark.parametrize(
    "write", [nlu_builders.mbart_cc25, nlu_builders.mbart50, nlu_builders.nllb_fairseq]
)
def test_an_encoder_decoder_is_the_same_in_transformers_and_after_import(tmp_path, hf, write):
    model, folder, imported = write(tmp_path), tmp_path / "out", tmp_path / "imported.pt"
    assert main(["export", str(tmp_path), str(folder), "--format=huggingface"]) == 0
    rows = model.encoder.embed_tokens.num_embeddings
    hf_model = load(hf.AutoModelForSeq2SeqLM, folder)
    assert_same_seq2seq(model, hf_model, rows)
    symbols = [line.split()[0] for line in (folder / "dict.txt").read_text().splitlines()]
    assert len(symbols) == rows - 4
    assert main(["import", str(folder), str(imported)]) == 0
    imported_model = build_from_checkpoint(imported, symbols)
    files.assert_same(imported_model.state_dict(), model.state_dict())
    assert_same_seq2seq(imported_model, hf_model, rows)
    with pytest.raises(SystemExit):
        main(["import", str(folder), str(imported)])


@pytest.mark.cases(
    "kind changes", ("mbart", {}), ("mbart", {"scale_embedding": False}), ("nllb", {})
)
def test_an_encoder_decoder_of_transformers_is_imported(tmp_path, hf, kind, changes):
    symbols = nlu_builders.PIECES
    rows = 4 + len(symbols)
    hf_model = nlu_builders.huggingface(hf, kind, tmp_path / "hf", rows, **changes)
    assert main(["import", str(tmp_path / "hf"), str(tmp_path / "model.pt")]) == 0
    model = build_from_checkpoint(tmp_path / "model.pt", symbols)
    assert_same_seq2seq(model, hf_model, rows)


@pytest.mark.cases(
    "task start forced prefix suffix",
    (
        {"_name": "translation_from_pretrained_bart"},
        "[de_DE]",
        None,
        [],
        ["</s>", "[en_XX]"],
    ),
    (
        {**MULTI, "encoder_langtok": "src", "decoder_langtok": True},
        "</s>",
        "[de_DE]",
        ["[en_XX]"],
        ["</s>"],
    ),
    ({**MULTI, "encoder_langtok": "tgt"}, "</s>", None, ["[de_DE]"], ["</s>"]),
    ({"_name": "translation"}, "</s>", None, [], ["</s>"]),
)
def test_the_tokenizer_gives_the_rows_of_the_model_and_the_tags_of_its_task(
    tmp_path, hf, task, start, forced, prefix, suffix
):
    pieces = nlu_builders.write_sentencepiece(tmp_path)[3:]
    random.Random(1).shuffle(pieces)
    nlu_builders.write_dict(tmp_path / "dict.txt", [*pieces, "madeupword0000"])
    symbols = [*pieces, "madeupword0000", "[en_XX]", "[de_DE]", "<mask>"]
    model = nlu_builders.stock_model(symbols, arch="mbart_large", **PRE_NORM)
    languages = {"langs": "en_XX,de_DE", "source_lang": "en_XX", "target_lang": "de_DE"}
    options = {**languages, "lang_tok_style": "mbart", **task}
    nlu_builders.stock_checkpoint(tmp_path / "run" / "model.pt", model, options)
    folder = tmp_path / "out"
    export_huggingface(tmp_path / "run" / "model.pt", folder, tmp_path)
    index = nlu_builders.dictionary(symbols).index
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["decoder_start_token_id"] == index(start)
    assert generation.get("forced_bos_token_id") == (index(forced) if forced else None)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "sentencepiece.bpe.model")
    )
    draw = random.Random(2)
    for _ in range(40):
        text = "".join(draw.choice("abcdefghijkl  ,.éＡß\t") for _ in range(draw.randint(1, 20)))
        expected = [*prefix, *processor.encode(text, out_type=str), *suffix]
        assert tokenizer(text)["input_ids"] == [index(piece) for piece in expected], repr(text)
    encoder = read_encoder(folder)
    assert [*encoder.entries] == [*nlu_builders.SPECIAL, *symbols]
    assert encoder.languages == ("en_XX", "de_DE")


def test_a_tokenizer_is_left_out_if_it_cannot_give_all_pieces(tmp_path, caplog):
    pieces = nlu_builders.write_sentencepiece(tmp_path)[4:]
    nlu_builders.write_dict(tmp_path / "dict.txt", pieces)
    model = nlu_builders.stock_model([*pieces, "<mask>"], arch="mbart_large", **PRE_NORM)
    nlu_builders.stock_checkpoint(tmp_path / "model.pt", model, {"_name": "translation"})
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    assert "no tokenizer.json: 1 of its pieces" in caplog.text
    assert not (tmp_path / "out" / "tokenizer.json").exists()
    assert (tmp_path / "out" / "sentencepiece.bpe.model").exists()


@pytest.mark.cases(
    "change message",
    ({"final_logits_bias": torch.ones(1, 28)}, "final_logits_bias"),
    ({"model.decoder.layers.0.adapter.weight": torch.ones(2)}, "unknown tensors .*adapter"),
    (
        {"model.encoder.layers.1.fc1.weight": torch.ones(3, 16)},
        r"wrong shapes: encoder\.layers\.1\.fc1\.weight",
    ),
)
def test_a_folder_that_fairseq_cannot_hold_is_refused(tmp_path, change, message):
    nlu_builders.mbart_cc25(tmp_path)
    export_huggingface(tmp_path / "model.pt", tmp_path / "out")
    path = tmp_path / "out" / "model.safetensors"
    tensors = files.safetensors.torch.load_file(path)
    files.safetensors.torch.save_file({**tensors, **change}, path)
    with pytest.raises(CheckpointError, match=message):
        import_seq2seq(tmp_path / "out", tmp_path / "imported.pt")
    assert not (tmp_path / "imported.pt").exists()
