"""Test transformer_from_xlmr: its encoder from the masked LM, freezing, rows, bad input."""

import argparse

import pytest
import torch
from fairseq import models
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

from fairseq_plugins import checkpoints
from tests import builders

SIZES = {
    **builders.SIDES,
    "decoder_layers": 1,
    "decoder_ffn_embed_dim": 20,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
    "max_target_positions": 30,
}


@pytest.fixture(scope="module")
def folder(path):
    module = builders.masked_lm()
    checkpoints.write_masked_lm(path, vars(module.sizes), module.state_dict(), dtype=torch.float32)
    return path


def arguments(path, **options):
    pretrained = None if path is None else str(path)
    values = {**SIZES, "pretrained_xlmr": pretrained, "share_all_embeddings": True, **options}
    return argparse.Namespace(arch="transformer_from_xlmr_tiny", **values)


def build(path, task=None, **options):
    return models.build_model(arguments(path, **options), task or builders.task())


def net_input(left_pad=False, bos=False, extra=0):
    """Make three ragged pairs as the stock task does, without ``<s>`` unless ``bos``."""
    rows = builders.source_rows([6, 3, 5])
    sources = rows if bos else [row[1:] for row in rows]
    data = builders.batch(sources, builders.target_rows([4, 2, 3]), extra)["net_input"]
    if left_pad:
        data["src_tokens"] = builders.left_padded(data["src_tokens"])
    return data


def test_the_encoder_is_the_masked_lm(folder):
    model = build(folder).eval()
    with torch.no_grad():
        masked_lm = builders.masked_lm().eval()
        expected = masked_lm.sentence_encoder(net_input(bos=True)["src_tokens"])[-1]
        for options in ({}, {"bos": True}, {"left_pad": True}, {"left_pad": True, "extra": 2}):
            encoder_out = model.encoder(net_input(**options)["src_tokens"])
            mask = encoder_out["encoder_padding_mask"][0]
            for row, length in enumerate([6, 3, 5]):
                states = encoder_out["encoder_out"][0].transpose(0, 1)[row][~mask[row]]
                torch.testing.assert_close(states, expected[row, :length], rtol=1e-5, atol=1e-5)


def test_a_frozen_encoder_stays_bit_equal_and_has_no_dropout(folder):
    for freeze in (True, False):
        model = build(folder, freeze_encoder=freeze, dropout=0.3, share_all_embeddings=False)
        assert model.encoder.training is not freeze
        model.train()
        criterion = LabelSmoothedCrossEntropyCriterion(builders.task(), False, 0.1)
        data = net_input()
        sample = {"net_input": data, "target": data["prev_output_tokens"], "ntokens": 12}
        changed = builders.moved(model, lambda: criterion(model, sample)[0])  # noqa: B023
        sides = {"decoder"} if freeze else {"encoder", "decoder"}
        assert {name.split(".")[0] for name in changed} == sides
        first, second = (model.encoder(data["src_tokens"])["encoder_out"][0] for _ in range(2))
        assert torch.equal(first, second) is freeze


@pytest.mark.cases(
    "options message",
    ({"encoder_layers": 3}, r"--pretrained-xlmr .*--encoder-layers 3 \(valid here: 2\)"),
    ({"encoder_attention_heads": 4}, r"--encoder-attention-heads 4 \(valid here: 2\)"),
    ({"max_source_positions": 99}, "-positions 99: .* 40 learned positions"),
    ({"activation_fn": "relu"}, "--activation-fn relu .*valid: gelu"),
    ({"encoder_normalize_before": True}, "--encoder-normalize-before True .*valid: False"),
    ({"embedding_mismatch": "guess"}, "mismatch .*error, extend, truncate; got guess"),
)
def test_options_that_do_not_fit_the_file_are_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        build(folder, **options)


def test_rows_follow_the_dictionary(folder):
    rows = builders.masked_lm().state_dict()["sentence_encoder.embed_tokens.weight"]
    without_mask = builders.task_of(builders.of_symbols(builders.piece_names()))
    truncated = build(folder, without_mask, embedding_mismatch="truncate").encoder.embed_tokens
    assert torch.equal(truncated.weight, rows[:-1])
    longer = builders.task_of(builders.of_symbols([*builders.piece_names(), "<mask>", "more"]))
    extended = build(folder, longer, embedding_mismatch="extend").encoder.embed_tokens
    assert extended.weight.size(0) == 31 and torch.equal(extended.weight[:30], rows)
    with pytest.raises(ValueError, match="31 entries.*30 rows.*--embedding-mismatch"):
        build(folder, longer)


def test_other_files_and_empty_sentences_are_refused(folder, tmp_path):
    torch.save({"model": {"decoder.layers.0.fc1.weight": torch.ones(2, 2)}}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="transformer_lm.*masked LM"):
        build(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="1 of the 2 source sentences .* row 2"):
        build(folder).encoder(torch.tensor([[5, builders.EOS], [builders.PAD, builders.EOS]]))


@pytest.mark.parametrize(("size", "millions"), [("_tiny", None), ("_base", 391), ("_large", 962)])
def test_architectures_are_the_same_from_argparse_and_from_hydra(size, millions):
    """The paper has 390M and 960M, with the 250,002 rows of XLM-R."""
    arch = "transformer_from_xlmr" + size
    options = {"share_all_embeddings": True}
    model = builders.built_both_ways(arch, "translation", builders.task(), "meta", **options)
    assert model.max_positions() == (511, 512)
    rows = (250_002 - builders.VOCAB) * model.encoder.embed_tokens.embedding_dim
    parameters = sum(parameter.numel() for parameter in model.parameters()) + rows
    assert millions is None or round(parameters / 1e6) == millions
