"""MaskedLM on weights read from files equals stock fairseq and Hugging Face on the same weights (float32, 1e-5).

Source: SGA section 3 (the frozen model is XLM-R); "logits equal" is what makes any released XLM-R usable here.
"""

import argparse
import re

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel, XLMRModel

from fairseq_plugins.checkpoints import load, read_masked_lm, write_masked_lm
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from tests.unit.checkpoints.builders import old_state

SIZES = dict(vocab_size=30, layers=12, embed_dim=16, ffn_dim=24, heads=4, max_positions=20, padding_idx=1)


def _randomise(model, seed=5):
    """Every parameter random, so that exchanging any two changes the logits; scales that keep the positions apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if re.search(r"(?i)layer_?norm(_embedding)?\.weight$", name):
                parameter.copy_(1.0 + 0.1 * noise)
                continue
            tokens = re.search(
                r"embed.*\.weight$|decoder\.weight$", name
            )  # Hugging Face may list the tie by the output
            scores = re.search(r"\.(q_proj|k_proj|query|key)\.weight$", name)
            parameter.copy_((0.5 if tokens else 0.4 if scores else 0.1) * noise)
    return model.eval()


def _tokens(left_pad=False):
    """Three sentences of 20, 7 and 1 tokens; the first fills every position."""
    generator = torch.Generator().manual_seed(6)
    tokens = torch.randint(2, SIZES["vocab_size"], (3, SIZES["max_positions"]), generator=generator)
    for row, length in ((1, 7), (2, 1)):
        tokens[row, slice(-length) if left_pad else slice(length, None)] = SIZES["padding_idx"]
    return tokens


def _stock(model_class):
    dictionary = Dictionary()
    while len(dictionary) < SIZES["vocab_size"]:
        dictionary.add_symbol(f"piece{len(dictionary)}")
    options = argparse.Namespace(
        encoder_layers=SIZES["layers"],
        encoder_embed_dim=SIZES["embed_dim"],
        encoder_ffn_embed_dim=SIZES["ffn_dim"],
        encoder_attention_heads=SIZES["heads"],
        max_positions=SIZES["max_positions"],
    )
    return _randomise(model_class.build_model(options, argparse.Namespace(source_dictionary=dictionary)))


def _ours(path):
    found = read_masked_lm(path)
    assert found.sizes == SIZES
    module = MaskedLM(MaskedLMSizes(**found.sizes)).eval()
    load(module, found.tensors)
    return module


def _assert_equal(logits, expected, tokens):
    kept = tokens.ne(SIZES["padding_idx"])
    assert expected[kept].std(dim=0).mean() > 0.5
    torch.testing.assert_close(logits[kept], expected[kept], rtol=0, atol=1e-5)


@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("model_class", [XLMRModel, RobertaModel])
@torch.no_grad()
def test_equals_stock_fairseq(tmp_path, model_class, left_pad):
    stock, tokens = _stock(model_class), _tokens(left_pad)
    expected, extra = stock(tokens, return_all_hiddens=True)
    old = old_state(stock.state_dict())
    for name, state in (("current", stock.state_dict()), ("old", old)):
        torch.save({"args": stock.args, "model": state}, tmp_path / f"{name}.pt")
        ours = _ours(tmp_path / f"{name}.pt")
        _assert_equal(ours(tokens), expected, tokens)
        hidden = ours.sentence_encoder(tokens)
        for found, wanted in zip(hidden, extra["inner_states"][1:]):
            _assert_equal(found, wanted.transpose(0, 1), tokens)
    again = _randomise(_stock(model_class), seed=7)
    again.load_state_dict(old)  # stock fairseq reads the old layout written here: it is the true one
    torch.testing.assert_close(again(tokens)[0], expected)


def _huggingface(transformers, name):
    config = getattr(transformers, f"{name}Config")(
        vocab_size=SIZES["vocab_size"],
        hidden_size=SIZES["embed_dim"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        intermediate_size=SIZES["ffn_dim"],
        max_position_embeddings=SIZES["max_positions"] + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    return _randomise(getattr(transformers, f"{name}ForMaskedLM")(config))


@pytest.mark.parametrize("name", ["XLMRoberta", "Roberta", "Camembert"])
@torch.no_grad()
def test_equals_hugging_face(tmp_path, transformers, name):
    """With a token-type row that is not zero; padding at the end, as Hugging Face's tokenizers do."""
    model, tokens = _huggingface(transformers, name), _tokens()
    expected = model(tokens, attention_mask=tokens.ne(SIZES["padding_idx"]).long()).logits
    model.save_pretrained(tmp_path)
    _assert_equal(_ours(tmp_path)(tokens), expected, tokens)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    _assert_equal(_ours(tmp_path)(tokens), expected, tokens)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@torch.no_grad()
def test_hugging_face_reads_what_is_written(tmp_path, transformers, dtype):
    module, tokens = _randomise(MaskedLM(MaskedLMSizes(**SIZES))), _tokens()
    write_masked_lm(tmp_path, module.sizes, module.state_dict(), dtype)
    theirs, loading = transformers.XLMRobertaForMaskedLM.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not any(loading.values()), loading
    logits = theirs.eval()(tokens, attention_mask=tokens.ne(SIZES["padding_idx"]).long()).logits
    _assert_equal(_ours(tmp_path)(tokens), logits, tokens)
    if dtype == torch.float32:
        _assert_equal(module(tokens), logits, tokens)
