"""Test where nlu_encoder takes its sizes and weights from, and what its checkpoints hold."""

import logging
from pathlib import Path

import pytest
import torch

from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import FAMILIES, family_layout
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.nlu_builders import (
    KINDS,
    LANGUAGES,
    MBART_SYMBOLS,
    PIECES,
    SCRATCH,
    from_file,
    reloaded,
    saved,
    tokens_for,
)

POOLING = {"xlmr": "first", "bert": "first", "deltalm": "first", "mbart": "mean", "nllb": "mean"}


@pytest.mark.parametrize(
    ("family", "kind"), [*((family, "argparse") for family in FAMILIES), ("mbart", "omegaconf")]
)
@torch.no_grad()
def test_a_file_fills_the_model_and_its_checkpoint_replaces_the_file(tmp_path, family, kind):
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
    decoder = reloaded(model, symbols, tmp_path / "model.pt")
    assert torch.equal(decoder(tokens)[0], expected)
    assert decoder.encoder.layout == model.encoder.layout
    # Plain values, or the checkpoint could not be read safely.
    assert not isinstance(model.args.encoder_layout, type(model.encoder.layout))


@pytest.mark.parametrize("family", FAMILIES)
def test_argparse_and_hydra_build_the_same_model_from_scratch(family):
    options = {**SCRATCH, "encoder_family": family}
    models = [
        nlu_builders.build(nlu_builders.arguments(kind, **options), MBART_SYMBOLS) for kind in KINDS
    ]
    shapes = [
        {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        for model in models
    ]
    assert shapes[0] == shapes[1]
    sizes = {"layers": 2, "embed_dim": 16, "ffn_dim": 24, "heads": 2, "max_positions": 30}
    layout = family_layout(family, vocab_size=4 + len(MBART_SYMBOLS), **sizes)
    assert models[0].encoder.layout == models[1].encoder.layout == layout
    assert abs(models[0].encoder.layers[0].fc1.weight.std().item() - 0.02) < 0.004
    languages = list(LANGUAGES) if family in ("mbart", "nllb") else None
    assert models[0].args.encoder_languages == languages
    args = nlu_builders.arguments(**{**options, "max_source_positions": None})
    assert nlu_builders.build(args).max_positions() == 512


@pytest.mark.cases(
    "changes message",
    ({"encoder_layers": None, "encoder_heads": None}, "needs --encoder-layers, --encoder-heads"),
    ({"encoder_family": "gpt"}, "--encoder-family must be one of .*; got gpt"),
    ({"encoder_heads": 3}, "--encoder-heads 3: .*--encoder-embed-dim 16"),
    ({"encoder_layers": 0}, "--encoder-layers must be at least 1; got 0"),
    ({"dropout": 1.5}, r"--dropout .* got 1.5"),
    ({"sentence_pooling": "max"}, "--sentence-pooling must be one of .*; got max"),
)
def test_bad_options_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        nlu_builders.build(nlu_builders.arguments(**{**SCRATCH, **changes}))


@pytest.mark.cases(
    "file options message",
    ("", {"encoder_layers": 3}, r"--encoder-layers 3 \(valid here: 2\)"),
    ("", {"encoder_family": "nllb"}, r"--encoder-family nllb \(valid here: mbart\)"),
    ("", {"encoder_heads": 4}, r"--encoder-heads 4 \(valid here: 2\)"),
    ("", {"max_source_positions": 31}, "--max-source-positions 31: .* has 30 learned positions"),
    ("deltalm.pt", {}, "--pretrained-encoder: .*give --encoder-heads"),
    ("dict.txt", {}, r"--pretrained-encoder: checkpoint .*dict\.txt"),
)
def test_options_must_be_those_of_the_file(tmp_path, file, options, message):
    nlu_builders.write_any("deltalm", tmp_path)
    nlu_builders.mbart_cc25(tmp_path)
    with pytest.raises(ValueError, match=message):
        from_file(tmp_path / file, MBART_SYMBOLS, **options)


@torch.no_grad()
def test_a_run_resumes_without_the_file_if_its_checkpoint_is_there(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = from_file(tmp_path, MBART_SYMBOLS)
    run = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt"}
    with pytest.raises(ValueError, match="missing: no such file, .*--encoder-family"):
        from_file(Path("missing"), MBART_SYMBOLS, **run)
    saved(model, tmp_path / "checkpoint_last.pt")
    resumed = from_file(Path("missing"), MBART_SYMBOLS, **run)
    assert resumed.encoder.layout == model.encoder.layout
    tokens = tokens_for(model)
    with pytest.raises(ValueError, match="missing: no such file"):
        resumed(tokens)
    resumed.load_state_dict(model.state_dict())
    assert torch.equal(resumed(tokens)[0], model(tokens)[0])
    assert list(resumed.args.encoder_languages) == list(LANGUAGES)


# ---- Rows of the embedding, and the entries that they mean. ----


@torch.no_grad()
def test_the_number_of_rows_follows_the_policy(tmp_path):
    path, symbols = nlu_builders.write_any("deltalm", tmp_path)
    longer, shorter = [*symbols, "<mask>", "new"], symbols[:-3]

    def words(entries, policy="error"):
        model = from_file(path, entries, encoder_heads=2, embedding_mismatch=policy)
        return model.encoder.embed_tokens.weight

    rows = words(symbols)
    extended = words(longer, "extend")
    assert extended.shape[0] == 26 and torch.equal(extended[:24], rows)
    assert extended[24:].abs().max() > 0
    assert torch.equal(words(shorter, "truncate"), rows[:21])
    for entries, policy, valid in ((longer, "error", "extend"), (shorter, "extend", "truncate")):
        message = f"--embedding-mismatch is {policy}; valid here: {valid}"
        with pytest.raises(ValueError, match=message):
            words(entries, policy)


@pytest.mark.parametrize(
    ("family", "policy"), [("deltalm", "error"), ("nllb", "extend"), ("nllb", "truncate")]
)
def test_the_mask_that_a_task_adds_needs_no_row(tmp_path, caplog, family, policy):
    caplog.set_level(logging.INFO)
    path, symbols = nlu_builders.write_any(family, tmp_path)
    rows = from_file(path, symbols, encoder_heads=2).encoder.embed_tokens.weight
    masked = [*symbols, "<mask>"]
    model = from_file(path, masked, encoder_heads=2, embedding_mismatch=policy)
    words = model.encoder.embed_tokens.weight
    assert torch.equal(words[:-1], rows) and len(words) == len(rows) + 1
    assert torch.allclose(words[-1], rows.mean(0), atol=1e-6)
    assert f"a row for <mask> after the file's {len(rows)}" in caplog.text
    decoder = reloaded(model, masked, tmp_path / "checkpoint.pt")
    assert torch.equal(decoder.encoder.embed_tokens.weight, words)


def test_only_a_final_mask_needs_no_row(tmp_path):
    path, symbols = nlu_builders.write_any("deltalm", tmp_path)
    for entries, message in (
        ([*symbols, "new"], "--embedding-mismatch is error"),
        (["<mask>", *symbols], "--embedding-mismatch is error"),
        ([*symbols, "new", "<mask>"], "--embedding-mismatch is error"),
        ([symbols[1], symbols[0], *symbols[2:], "<mask>"], "'p0' as entry 4, .* 'p1'"),
    ):
        with pytest.raises(ValueError, match=message):
            from_file(path, entries, encoder_heads=2)


@pytest.mark.cases(
    "languages policy",
    (("de_DE", "ar_AR", "en_XX"), "error"),
    (("ar_AR", "en_XX"), "truncate"),
    ((), "truncate"),
    ((*LANGUAGES, "fr_XX"), "extend"),
)
def test_other_languages_are_refused_whatever_the_policy(tmp_path, languages, policy):
    """Otherwise a language would silently get the row of another one."""
    nlu_builders.mbart_cc25(tmp_path)
    symbols = [*PIECES, *nlu_builders.tags(languages), "<mask>"]
    message = f"languages ar_AR,de_DE,en_XX, .* {','.join(languages) or 'none'}, in this order"
    with pytest.raises(ValueError, match=message):
        from_file(tmp_path, symbols, embedding_mismatch=policy)


def test_a_checkpoint_is_decoded_with_its_own_dictionary(tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = from_file(tmp_path, MBART_SYMBOLS)
    reversed_tags = [*PIECES, *nlu_builders.tags(LANGUAGES[::-1]), "<mask>"]
    for symbols, message in (
        (reversed_tags, "languages ar_AR,de_DE,en_XX, .* has en_XX,de_DE,ar_AR"),
        ([*MBART_SYMBOLS, "new"], "29 entries, .* 28"),
    ):
        with pytest.raises(ValueError, match=message):
            reloaded(model, symbols, tmp_path / "checkpoint.pt")


def test_rows_that_nothing_names_are_refused_unless_an_option_names_them(tmp_path, caplog):
    """The dictionary of the data that a run was trained on names them as well."""
    stock = nlu_builders.stock_model(MBART_SYMBOLS, arch="mbart_base")
    data = tmp_path / "data"
    task = {"_name": "translation", "data": str(data)}
    path = nlu_builders.stock_checkpoint(tmp_path / "model.pt", stock, task)
    with pytest.raises(ValueError, match="28 rows.*--unnamed-rows dictionary"):
        from_file(path, MBART_SYMBOLS)
    model = from_file(path, MBART_SYMBOLS, unnamed_rows="dictionary")
    assert "does not tell its languages" in caplog.text
    assert "taken to be the dictionary's" in caplog.text
    assert list(model.args.encoder_languages) == list(LANGUAGES)
    for language in ("de", "en"):
        nlu_builders.write_dict(data / f"dict.{language}.txt", MBART_SYMBOLS)
    assert from_file(path, MBART_SYMBOLS)
    swapped = [MBART_SYMBOLS[1], MBART_SYMBOLS[0], *MBART_SYMBOLS[2:]]
    with pytest.raises(ValueError, match="'p0' as entry 4, the data's dictionary 'p1'"):
        from_file(path, swapped)


@pytest.mark.cases(
    "policy symbols",
    ("error", ["<mask>", *PIECES]),
    ("extend", [*PIECES, "tag", "<mask>"]),
    ("truncate", [*PIECES[:-2], "<mask>"]),
)
def test_mask_is_the_last_row_of_a_masked_lm(tmp_path, policy, symbols):
    path, entries = nlu_builders.write_any("xlmr", tmp_path)
    (path / "dict.txt").unlink()
    model = from_file(path, entries, unnamed_rows="dictionary")
    assert model.encoder.layout.vocab_size == 25
    with pytest.raises(ValueError, match="<mask> is entry .*, but row 24 of"):
        from_file(path, symbols, embedding_mismatch=policy, unnamed_rows="dictionary")


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
    encoder = read_encoder(path)
    assert encoder.languages == LANGUAGES and encoder.layout == model.encoder.layout
    report = encoder.report
    assert set(report.loaded) | set(report.dropped) == set(model.state_dict())
    second = from_file(path, MBART_SYMBOLS)
    assert torch.equal(second(tokens)[0], model(tokens)[0]) and not second.classification_heads
    content = torch.load(path, weights_only=False)
    content["cfg"]["model"].encoder_layout["layers"] = "two"
    torch.save(content, path)
    with pytest.raises(ValueError, match="encoder_layout has layers = 'two', expected int"):
        load_text_encoder(path)
