"""Test that MaskedLM with weights from files equals stock fairseq and Hugging Face.

Source: SGA section 3 (the frozen model is XLM-R). Equal logits make any released XLM-R usable here.
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

PAD = 1
SIZES = dict(
    vocab_size=30,
    layers=12,
    embed_dim=16,
    ffn_dim=24,
    heads=4,
    max_positions=20,
    padding_idx=PAD,
    epsilon=1e-5,
)


@torch.no_grad()
def randomise(model, seed=5):
    """Make every parameter random, so that exchanging any two changes the logits.

    The scales are such that positions stay different.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if re.search(r"(?i)layer_?norm(_embedding)?\.weight$", name):
            parameter.copy_(1.0 + 0.1 * noise)
        # Hugging Face may name the tied embedding by the output.
        elif re.search(r"embed.*\.weight$|decoder\.weight$", name):
            parameter.copy_(0.5 * noise)
        elif re.search(r"\.(q_proj|k_proj|query|key)\.weight$", name):
            parameter.copy_(0.4 * noise)
        else:
            parameter.copy_(0.1 * noise)
    return model.eval()


def random_tokens(left_pad=False):
    """Make sentences of 20, 7 and 1 tokens; the first fills every position."""
    generator = torch.Generator().manual_seed(6)
    shape = (3, SIZES["max_positions"])
    tokens = torch.randint(2, SIZES["vocab_size"], shape, generator=generator)
    for row, length in ((1, 7), (2, 1)):
        tokens[row, slice(-length) if left_pad else slice(length, None)] = PAD
    return tokens


def build_stock(model_class, seed=5):
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
    task = argparse.Namespace(source_dictionary=dictionary)
    return randomise(model_class.build_model(options, task), seed)


def read_module(path):
    file = read_masked_lm(path)
    assert file.sizes == SIZES
    module = MaskedLM(MaskedLMSizes(**file.sizes)).eval()
    load(module, file.tensors)
    return module


def assert_same_states(actual, expected, tokens):
    """Compare (B, T, C), padding excepted; positions must differ."""
    is_token = tokens.ne(PAD)
    assert expected[is_token].std(dim=0).mean() > 0.5
    torch.testing.assert_close(actual[is_token], expected[is_token], rtol=0, atol=1e-5)


@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("model_class", [XLMRModel, RobertaModel])
@torch.no_grad()
def test_logits_and_states_equal_stock_fairseq(tmp_path, model_class, left_pad):
    stock, tokens = build_stock(model_class), random_tokens(left_pad)
    expected, extra = stock(tokens, return_all_hiddens=True)
    old = old_state(stock.state_dict())
    for name, state in (("current", stock.state_dict()), ("old", old)):
        torch.save({"args": stock.args, "model": state}, tmp_path / f"{name}.pt")
        module = read_module(tmp_path / f"{name}.pt")
        assert_same_states(module(tokens), expected, tokens)
        for states, stock_states in zip(module.sentence_encoder(tokens), extra["inner_states"][1:]):
            assert_same_states(states, stock_states.transpose(0, 1), tokens)
    # Stock fairseq reads the old layout that was written here, so the layout is right.
    reloaded = build_stock(model_class, seed=7)
    reloaded.load_state_dict(old)
    torch.testing.assert_close(reloaded(tokens)[0], expected)


@pytest.mark.parametrize("name", ["XLMRoberta", "Camembert"])
@torch.no_grad()
def test_logits_equal_hugging_face(tmp_path, transformers, name):
    """Use a token type that is not zero, and padding at the end, as tokenizers put it."""
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
    model = randomise(getattr(transformers, f"{name}ForMaskedLM")(config))
    tokens = random_tokens()
    expected = model(tokens, attention_mask=tokens.ne(PAD).long()).logits
    model.save_pretrained(tmp_path)
    assert_same_states(read_module(tmp_path)(tokens), expected, tokens)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert_same_states(read_module(tmp_path)(tokens), expected, tokens)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@torch.no_grad()
def test_hugging_face_reads_written_models(tmp_path, transformers, dtype):
    module, tokens = randomise(MaskedLM(MaskedLMSizes(**SIZES))), random_tokens()
    write_masked_lm(tmp_path, module.sizes, module.state_dict(), dtype)
    hf_model, info = transformers.XLMRobertaForMaskedLM.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not any(info.values()), info
    logits = hf_model.eval()(tokens, attention_mask=tokens.ne(PAD).long()).logits
    assert_same_states(read_module(tmp_path)(tokens), logits, tokens)
    if dtype == torch.float32:
        assert_same_states(module(tokens), logits, tokens)
