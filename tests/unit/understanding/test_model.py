"""nlu_encoder: where its sizes and weights come from, and what its checkpoints hold."""

import logging
from pathlib import Path

import pytest
import torch

from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import FAMILIES, family_layout
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.nlu_builders import KINDS, LANGUAGES, MBART_SYMBOLS, PIECES, SCRATCH, from_file, reloaded, saved, tokens_for

POOLING = {"xlmr": "first", "bert": "first", "deltalm": "first", "mbart": "mean", "nllb": "mean"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_file_fills_the_model_and_is_needed_no_more(tmp_path, family, kind):
    path, symbols = nlu_builders.write_any(family, tmp_path / "pretrained")
    heads = nlu_builders.heads_of(family)
    model = from_file(path, symbols, kind, **({"encoder_heads": heads} if heads else {}))
    assert model.encoder.layout.family == family and model.pooling == POOLING[family]
    tokens = tokens_for(model)
    expected = load_text_encoder(path, heads)(tokens)[-1]
    assert torch.equal(model(tokens)[0], expected)
    assert model.args.pretrained_encoder is None and model.args.initialised_from == str(path)
    assert model.max_positions() == model.encoder.layout.max_positions
    for file in (tmp_path / "pretrained").iterdir():
        file.unlink()
    again = reloaded(model, symbols, tmp_path / "model.pt")
    assert torch.equal(again(tokens)[0], expected)
    assert again.encoder.layout == model.encoder.layout
    # Plain, or it could not be read safely.
    assert not isinstance(model.args.encoder_layout, type(model.encoder.layout))


@pytest.mark.parametrize("family", FAMILIES)
def test_from_scratch_both_ways_build_the_same(family):
    given = {**SCRATCH, "encoder_family": family}
    built = [nlu_builders.build(nlu_builders.arguments(kind, **given)) for kind in KINDS]
    shapes = [{name: tuple(one.shape) for name, one in model.state_dict().items()} for model in built]
    assert shapes[0] == shapes[1]
    usual = family_layout(family, vocab_size=24, layers=2, embed_dim=16, ffn_dim=24, heads=2, max_positions=30)
    assert built[0].encoder.layout == built[1].encoder.layout == usual
    assert abs(built[0].encoder.layers[0].fc1.weight.std().item() - 0.02) < 0.004
    usual = nlu_builders.arguments(**{**SCRATCH, "max_source_positions": None})
    assert nlu_builders.build(usual).max_positions() == 512
    languages = nlu_builders.scratch(
        encoder_family=family
    ).args.encoder_languages  # the dictionary's, where a family has them
    assert languages == (list(LANGUAGES) if family in ("mbart", "nllb") else None)


@pytest.mark.cases(
    "changes message",
    ({"encoder_layers": None, "encoder_heads": None}, "needs --encoder-layers, --encoder-heads"),
    ({"encoder_family": "gpt"}, "--encoder-family must be one of xlmr, bert, mbart, nllb, deltalm; got gpt"),
    ({"encoder_heads": 3}, "--encoder-heads 3: must divide --encoder-embed-dim 16"),
    ({"encoder_layers": 0}, "--encoder-layers must be at least 1; got 0"),
    ({"dropout": 1.5}, r"--dropout must lie in \[0, 1\); got 1.5"),
    ({"sentence_pooling": "max"}, "--sentence-pooling must be one of first, last, mean; got max"),
)
def test_bad_options_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        nlu_builders.build(nlu_builders.arguments(**{**SCRATCH, **changes}))


@pytest.mark.cases(
    "options message",
    ({"encoder_layers": 3}, r"--encoder-layers 3 \(valid here: 2\)"),
    ({"encoder_family": "nllb"}, r"--encoder-family nllb \(valid here: mbart\)"),
    ({"encoder_heads": 4}, r"--encoder-heads 4 \(valid here: 2\)"),
    ({"max_source_positions": 31}, "--max-source-positions 31: .* has 30 learned positions; valid: at most that"),
    ({"path": "deltalm.pt"}, "--pretrained-encoder: .*number of attention heads.*; give --encoder-heads"),
    ({"path": "dict.txt"}, r"--pretrained-encoder: checkpoint .*dict\.txt"),
)
def test_options_are_compared_with_the_file(tmp_path, options, message):
    nlu_builders.write_any("deltalm", tmp_path)
    nlu_builders.mbart_cc25(tmp_path)
    given = {"path": "", **options}
    with pytest.raises(ValueError, match=message):
        from_file(tmp_path / given.pop("path"), MBART_SYMBOLS, **given)


@torch.no_grad()
def test_a_run_resumes_without_the_file(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = from_file(tmp_path, MBART_SYMBOLS)
    saved(model, tmp_path / "checkpoint_last.pt")
    gone = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt"}
    again = from_file(tmp_path / "gone", MBART_SYMBOLS, **gone)
    assert again.encoder.layout == model.encoder.layout
    tokens = tokens_for(model)
    with pytest.raises(ValueError, match="gone: no such file, and there is no checkpoint of this run"):
        again(tokens)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(tokens)[0], model(tokens)[0])
    assert list(again.args.encoder_languages) == list(LANGUAGES)


def test_without_file_and_checkpoint_sizes_are_needed(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: no such file, and there is no checkpoint .*--encoder-family"):
        from_file(Path("nowhere"), PIECES, save_dir=str(tmp_path), restore_file="checkpoint_last.pt")


@torch.no_grad()
def test_rows_by_policy(tmp_path):
    path, symbols = nlu_builders.write_any("deltalm", tmp_path)
    more = [*symbols, "<mask>", "new"]
    with pytest.raises(ValueError, match="26 entries, .* 24 rows, .*--embedding-mismatch is error; valid here: extend"):
        from_file(path, more, encoder_heads=2)
    whole = from_file(path, symbols, encoder_heads=2).encoder.embed_tokens.weight
    extended = from_file(path, more, encoder_heads=2, embedding_mismatch="extend").encoder.embed_tokens.weight
    assert extended.shape[0] == 26 and torch.equal(extended[:24], whole)
    assert extended[24:].abs().max() > 0
    cut = from_file(path, symbols[:-3], encoder_heads=2, embedding_mismatch="truncate").encoder.embed_tokens.weight
    assert torch.equal(cut, whole[:21])
    with pytest.raises(ValueError, match="--embedding-mismatch is extend; valid here: truncate"):
        from_file(path, symbols[:-3], encoder_heads=2, embedding_mismatch="extend")


@pytest.mark.parametrize(("family", "policy"), [("deltalm", "error"), ("nllb", "extend"), ("nllb", "truncate")])
def test_the_mask_that_a_task_adds_needs_no_row(tmp_path, caplog, family, policy):
    caplog.set_level(logging.INFO)
    path, symbols = nlu_builders.write_any(family, tmp_path)
    whole = from_file(path, symbols, encoder_heads=2).encoder.embed_tokens.weight
    model = from_file(path, [*symbols, "<mask>"], encoder_heads=2, embedding_mismatch=policy)
    words = model.encoder.embed_tokens.weight
    assert torch.equal(words[:-1], whole) and len(words) == len(whole) + 1
    assert torch.allclose(words[-1], whole.mean(0), atol=1e-6)
    assert f"a row for <mask> after the file's {len(whole)}" in caplog.text
    again = reloaded(model, [*symbols, "<mask>"], tmp_path / "own.pt")
    assert torch.equal(again.encoder.embed_tokens.weight, words)


def test_only_a_final_mask_needs_no_row(tmp_path):
    """Not another symbol, not <mask> elsewhere, not two symbols, not where the entries before it differ."""
    path, symbols = nlu_builders.write_any("deltalm", tmp_path)
    for other, words in (
        ([*symbols, "new"], "--embedding-mismatch is error; valid here: extend"),
        (["<mask>", *symbols], "--embedding-mismatch is error; valid here: extend"),
        ([*symbols, "new", "<mask>"], "--embedding-mismatch is error; valid here: extend"),
        ([symbols[1], symbols[0], *symbols[2:], "<mask>"], "'p0' as entry 4, the data's dictionary 'p1'"),
    ):
        with pytest.raises(ValueError, match=words):
            from_file(path, other, encoder_heads=2)


@pytest.mark.parametrize("languages", [("de_DE", "ar_AR", "en_XX"), ("ar_AR", "en_XX"), ()])
def test_other_languages_are_refused(tmp_path, languages):
    """Whatever the policy of the rows: each language's row would silently be another's."""
    nlu_builders.mbart_cc25(tmp_path)
    words = rf"languages ar_AR,de_DE,en_XX, the data's dictionary has {','.join(languages) or 'none'}, in this order"
    for policy in ("error", "extend", "truncate"):
        with pytest.raises(ValueError, match=words):
            from_file(tmp_path, [*PIECES, *nlu_builders.tags(languages), "<mask>"], embedding_mismatch=policy)


def test_entries_of_a_checkpoint_are_compared_when_it_is_decoded(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = from_file(tmp_path, MBART_SYMBOLS)
    swapped = [*PIECES, *nlu_builders.tags(LANGUAGES[::-1]), "<mask>"]
    for symbols, message in (
        (swapped, "the checkpoint was trained with the languages ar_AR,de_DE,en_XX, .* has en_XX,de_DE,ar_AR"),
        ([*MBART_SYMBOLS, "new"], "dictionary has 29 entries, the checkpoint was trained with 28"),
    ):
        with pytest.raises(ValueError, match=message):
            reloaded(model, symbols, tmp_path / "own.pt")


def test_rows_that_nothing_names_are_refused(tmp_path, caplog):
    """Unless the option says otherwise; the dictionary of the data that a run was trained on names them as well."""
    stock = nlu_builders.stock_model(MBART_SYMBOLS, arch="mbart_base")
    data = tmp_path / "data"
    path = nlu_builders.stock_checkpoint(tmp_path / "model.pt", stock, {"_name": "translation", "data": str(data)})
    with pytest.raises(ValueError, match="nothing beside it tells what its 28 rows mean.*--unnamed-rows dictionary"):
        from_file(path, MBART_SYMBOLS)
    model = from_file(path, MBART_SYMBOLS, unnamed_rows="dictionary")
    assert "does not tell its languages" in caplog.text and "taken to be the dictionary's" in caplog.text
    assert list(model.args.encoder_languages) == list(LANGUAGES)
    data.mkdir()
    for language in ("de", "en"):
        nlu_builders.write_dict(data / f"dict.{language}.txt", MBART_SYMBOLS)
    assert from_file(path, MBART_SYMBOLS)
    with pytest.raises(ValueError, match="its vocabulary has 'p0' as entry 4, the data's dictionary 'p1'"):
        from_file(path, [MBART_SYMBOLS[1], MBART_SYMBOLS[0], *MBART_SYMBOLS[2:]])


def test_mask_is_the_last_row_of_a_masked_lm(tmp_path):
    path, symbols = nlu_builders.write_any("xlmr", tmp_path)
    (path / "dict.txt").unlink()
    assert from_file(path, symbols, unnamed_rows="dictionary").encoder.layout.vocab_size == 25
    entries = {"error": ["<mask>", *PIECES], "extend": [*PIECES, "tag", "<mask>"], "truncate": [*PIECES[:-2], "<mask>"]}
    for policy, other in entries.items():
        with pytest.raises(ValueError, match="<mask> is entry .* of the dictionary, but row 24 of"):
            from_file(path, other, embedding_mismatch=policy, unnamed_rows="dictionary")


@torch.no_grad()
def test_a_fine_tuned_checkpoint_is_an_encoder_again(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = from_file(tmp_path, MBART_SYMBOLS)
    model.register_classification_head("xnli", 3)
    model.register_token_head("ner", 3)
    nlu_builders.randomise(model)
    path = saved(model, tmp_path / "finetuned.pt")
    tokens = tokens_for(model)
    assert torch.equal(load_text_encoder(path)(tokens)[-1], model(tokens)[0])
    found = read_encoder(path)
    assert found.languages == LANGUAGES and found.layout == model.encoder.layout
    assert set(found.report.loaded) | set(found.report.dropped) == set(model.state_dict())
    second = from_file(path, MBART_SYMBOLS)
    assert torch.equal(second(tokens)[0], model(tokens)[0]) and not second.classification_heads
    content = torch.load(path, weights_only=False)
    content["cfg"]["model"].encoder_layout["layers"] = "two"
    torch.save(content, path)
    with pytest.raises(ValueError, match="encoder_layout has layers = 'two', expected int"):
        load_text_encoder(path)
