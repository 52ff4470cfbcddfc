"""Test gpt_msp against three stages of Hugging Face's GPT-2, and its decoder against two models.

Source: MSP (Tan et al. 2022) section 3.3.
"""

import pytest
import torch
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from fairseq_plugins.baselines.prefix_decoder import PrefixDecoder
from fairseq_plugins.checkpoints import load
from fairseq_plugins.checkpoints.fitting import MARKERS
from fairseq_plugins.checkpoints.gpt import read_causal_lm
from tests import builders, gpt_builders


def build_gpt2(transformers, layers=gpt_builders.LAYERS):
    """Build Hugging Face's model with the weights of ``gpt_builders``."""
    config = gpt_builders.config(layers)
    del config["model_type"]
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).eval()
    tensors = gpt_builders.tensors(layers)
    weights = {name: tensors[name] for name in tensors if not name.endswith(".attn.bias")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert unexpected == [] and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def build_prefix_decoder(path):
    file = read_causal_lm(path)
    module = PrefixDecoder(file.layout, gpt_builders.dictionary())
    load(module, file.tensors, allow_missing=MARKERS)
    return module.eval()


def assert_same_logits(actual, expected, tokens):
    """Compare (B, T, V) logits, padding excepted."""
    is_token = tokens.ne(builders.PAD)
    torch.testing.assert_close(actual[is_token], expected[is_token], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_logits_equal_gpt2(tmp_path, transformers):
    """Use eleven layers, whose numbers have one digit or two, and every position."""
    module = build_prefix_decoder(gpt_builders.write(tmp_path, gpt_builders.tensors(11)))
    tokens = builders.pad(gpt_builders.pieces_rows([gpt_builders.POSITIONS, 7, 1]))
    mask = tokens.ne(builders.PAD).long()
    expected = build_gpt2(transformers, 11)(tokens, attention_mask=mask).logits
    assert_same_logits(module.output_projection(module.run(tokens)), expected, tokens)


TRANSFORMER_LM_WIRING = {
    "decoder_normalize_before": False,
    "decoder_learned_pos": False,
    "no_scale_embedding": False,
    "activation_fn": "relu",
    "share_decoder_input_output_embed": False,
    "layernorm_embedding": True,
}


@pytest.mark.parametrize("wiring", [{}, TRANSFORMER_LM_WIRING], ids=["gpt", "transformer_lm"])
@torch.no_grad()
def test_logits_equal_stock_transformer_lm(tmp_path, wiring):
    settings = gpt_builders.stock_settings(**wiring)
    options = {name: value for name, value in vars(settings).items() if name != "arch"}
    cfg = TransformerLanguageModelConfig(**options)
    cfg.decoder_input_dim = cfg.decoder_output_dim = gpt_builders.WIDTH
    stock = TransformerLanguageModel.build_model(cfg, gpt_builders.task())
    builders.randomise(stock, seed=3)
    stock.eval()
    torch.save({"args": settings, "model": stock.state_dict()}, tmp_path / "lm.pt")
    module = build_prefix_decoder(tmp_path / "lm.pt")
    tokens = builders.pad(gpt_builders.pieces_rows([9, 4]))
    assert_same_logits(module.output_projection(module.run(tokens)), stock(tokens)[0], tokens)


def run_stage(transformers, model, tokens, prefix, mask):
    """Run Hugging Face's model; return logits, and keys and values of ``tokens`` alone."""
    cache = transformers.DynamicCache()
    for layer, (key, value) in enumerate(prefix):
        cache.update(key, value, layer)
    positions = torch.arange(tokens.size(1))[None].expand_as(tokens)
    outputs = model(
        tokens,
        past_key_values=cache,
        attention_mask=mask,
        position_ids=positions,
        use_cache=True,
    )
    start = prefix[0][0].size(2)
    states = [(layer.keys[:, :, start:], layer.values[:, :, start:]) for layer in cache.layers]
    return outputs.logits, states


def concatenate(first, second):
    """Concatenate keys and values of each layer."""
    return [
        tuple(torch.cat(parts, dim=2) for parts in zip(first_layer, second_layer))
        for first_layer, second_layer in zip(first, second)
    ]


def run_three_stages(transformers, model, prompts, sample):
    """Encode, re-encode and decode; return logits.

    Args:
        prompts: for each stage and layer, a key and a value (1, H, P, D), which come first.
    """
    source, target = sample["src_tokens"], sample["prev_output_tokens"]
    source_mask, target_mask = source.ne(builders.PAD).long(), target.ne(builders.PAD).long()
    encoding, re_encoding, decoding = (
        [tuple(part.expand(len(source), -1, -1, -1) for part in layer) for layer in stage]
        for stage in prompts
    )
    prompt_mask = source_mask.new_ones(len(source), encoding[0][0].size(2))

    mask = torch.cat([prompt_mask, source_mask], 1)
    _, states = run_stage(transformers, model, source, encoding, mask)
    mask = torch.cat([prompt_mask, source_mask, source_mask], 1)
    prefix = concatenate(re_encoding, states)
    _, states = run_stage(transformers, model, source, prefix, mask)
    mask = torch.cat([prompt_mask, source_mask, target_mask], 1)
    prefix = concatenate(decoding, states)
    return run_stage(transformers, model, target, prefix, mask)[0]


@torch.no_grad()
def test_logits_equal_three_stages_of_gpt2(tmp_path, transformers):
    model = gpt_builders.msp(gpt_builders.write(tmp_path))
    sample, prompts = gpt_builders.net_input(), []
    for stage, scale in (
        (model.encoder.encoding, 1.7),
        (model.encoder.re_encoding, 0.5),
        (model.decoder.decoding, 1.2),
    ):
        stage.scale.data.fill_(scale)
        factor = max(1.0, scale)
        shape = (1, stage.key.size(1), gpt_builders.HEADS, -1)
        layers = zip(stage.key * factor, stage.value * factor)
        prompts.append(
            [tuple(part.view(shape).transpose(1, 2) for part in layer) for layer in layers]
        )
    expected = run_three_stages(transformers, build_gpt2(transformers), prompts, sample)
    assert_same_logits(model(**sample)[0], expected, sample["prev_output_tokens"])
