"""VECO's sizes and options, the routes' equality with stock fairseq and with our encoders, and decoding step by step."""

import argparse

import pytest
import torch
from fairseq import models

from fairseq_plugins.checkpoints.layouts import family_layout
from fairseq_plugins.models.veco.layer_choice import parse_layers
from fairseq_plugins.understanding.encoder import TextEncoder
from tests import builders, veco_builders
from tests.veco_builders import KINDS, LAYERS

CLOSE = dict(rtol=0, atol=1e-5)
# Layers, width, feed-forward width, heads.
ARCHS = {"veco_tiny": (4, 256, 1024, 4), "veco_base": (12, 768, 3072, 12), "veco_large": (24, 1024, 4096, 16)}


@pytest.mark.parametrize("arch", list(ARCHS))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    layers, width, inner, heads = ARCHS[arch]
    model = builders.built_both_ways(arch, "translation", veco_builders.task(), "meta")
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (layers, min(6, layers))
    for side in (model.encoder, model.decoder):
        layer = side.layers[0]
        assert (layer.fc1.in_features, layer.fc1.out_features, layer.self_attn.num_heads) == (width, inner, heads)
        assert side.embed_positions.weight.shape == (514, width) and side.layernorm_embedding.weight.shape == (width,)
        assert side.layer_norm is None and side.embed_scale == width**0.5
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    args = model.args
    assert (args.activation_fn, args.dropout, args.attention_dropout) == ("gelu", 0.1, 0.0)


def test_the_large_model_has_662_million_parameters():
    """SPEC and section 3 ("~ 662M parameters"); cross-attention is "less than 20%" of them (section 2.3)."""
    symbols = dict(pieces=250002 - 5, mask=True)
    with torch.device("meta"):
        args = argparse.Namespace(arch="veco_large")
        models.ARCH_CONFIG_REGISTRY["veco_large"](args)
        model = models.build_model(args, veco_builders.task(True, **symbols))
    assert args.attention_dropout == 0.1  # as in pre-training
    total = sum(parameter.numel() for parameter in model.parameters())
    crossing = sum(parameter.numel() for parameter in model.cross_attention_parameters())
    assert 655e6 < total < 669e6
    assert crossing == 24 * (4 * (1024 * 1024 + 1024) + 2 * 1024)
    assert 0.10 < crossing / total < 0.20


@pytest.mark.cases(
    "text stack expected",
    ("18,19,23", 24, [18, 19, 23]),
    ("last:6", 24, [18, 19, 20, 21, 22, 23]),
    ("every:4", 24, [3, 7, 11, 15, 19, 23]),
    ("every:3", 4, [0, 3]),
    ("last:1", 1, [0]),
)
def test_choices_of_layers_by_hand(text, stack, expected):
    assert parse_layers(text, stack, "--keep-decoder-layers") == expected


BAD_CHOICES = [("1,4", "layer 4 is out of range; valid: 0 to 3"), ("2,1", "each layer once, in increasing order")]
BAD_CHOICES += [(text, "from 1 to the 4 layers") for text in ("last:0", "every:0", "every:5")]
BAD_CHOICES += [(text, "valid: a list") for text in ("first:3", "-1")]


@pytest.mark.parametrize("kind", KINDS)
def test_kept_layers_set_the_depth_and_stay_in_the_options(kind):
    args = veco_builders.arguments(kind, keep_encoder_layers="1,3", keep_decoder_layers="every:2")
    model = veco_builders.translator(args)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 2)
    assert model.choice == (LAYERS, (1, 3), (1, 3))
    assert (args.encoder_layers, args.decoder_layers, args.keep_encoder_layers) == (LAYERS, 2, "1,3")
    again = veco_builders.translator(args)  # decoding builds from the options that the checkpoint keeps
    assert again.choice == model.choice


@pytest.mark.cases(
    "given message",
    ({"keep_encoder_layers": "1,1"}, r"--keep-encoder-layers 1,1: .*each layer once"),
    ({"keep_decoder_layers": "last:2", "decoder_layers": 3}, r"--decoder-layers 3: .* are 2 layers"),
    ({"encoder_layers_to_keep": "0,1"}, r"--encoder-layers-to-keep 0,1: .*--keep-encoder-layers"),
    ({"embedding_mismatch": "cut"}, r"--embedding-mismatch must be one of error, extend, truncate; got cut"),
    *((dict(keep_decoder_layers=text), f"--keep-decoder-layers '?{text}'?: .*{words}") for text, words in BAD_CHOICES),
)
def test_bad_options_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        veco_builders.translator(**given)


@pytest.mark.cases(
    "given message",
    ({"decoder_layers": 2}, r"--decoder-layers 2: .*valid here: 4"),
    ({"keep_decoder_layers": "last:2"}, r"--keep-decoder-layers: pre-training has the whole stack"),
    ({"max_target_positions": 20}, r"--max-target-positions 20: .*valid here: 40"),
    ({"no_scale_embedding": False}, "--no-scale-embedding false"),
    ({"share_all_embeddings": False}, "--share-all-embeddings false"),
    ({"encoder_layerdrop": 0.2}, r"--encoder-layerdrop 0.2: .*all of them run; leave it out"),
    ({"decoder_normalize_before": True}, r"--decoder-normalize-before True: .*valid here: False"),
    ({"decoder_output_dim": 8}, r"--decoder-output-dim 8: .*valid here: 16"),
    ({"activation_fn": "relu"}, "pre-training: --activation-fn relu is not how XLM-R .*valid: gelu"),
    ({"layernorm_embedding": False}, "--layernorm-embedding False .*valid: True"),
)
def test_pretraining_refuses_what_would_part_the_two_routes(given, message):
    with pytest.raises(ValueError, match=message):
        veco_builders.pretrainer(**given)


@torch.no_grad()
def test_the_encoder_route_is_our_encoder_bit_for_bit():
    """TextEncoder is what reads XLM-R, and the encoder of a VECO file for understanding."""
    model = veco_builders.random_pretrainer()
    sizes = dict(layers=LAYERS, embed_dim=builders.WIDTH, ffn_dim=builders.FFN, heads=builders.HEADS)
    layout = family_layout("xlmr", vocab_size=builders.VOCAB, max_positions=builders.POSITIONS, **sizes)
    encoder = TextEncoder(layout).eval()
    encoder.load_state_dict(model.encoder.state_dict())
    tokens = veco_builders.batch(extra=2)["net_input"]["src_tokens"]
    route = model.encoder(tokens, src_lengths=None)["encoder_out"][0].transpose(0, 1)
    kept = tokens.ne(builders.PAD)
    assert torch.equal(route[kept], encoder(tokens)[-1][kept])
    assert float(route[kept].std(dim=0).mean()) > 0.1


@torch.no_grad()
def test_the_decoder_route_with_all_layers_is_stock_fairseqs():
    model = veco_builders.random_pretrainer()
    stock = veco_builders.stock_model(veco_builders.dictionary(mask=True), scaled=False)
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("lm_head.")}
    stock.load_state_dict(state)
    sample = veco_builders.batch(extra=1)["net_input"]
    tokens, half = sample["src_tokens"], 2
    seen = {}
    model(**sample, objectives=("cs",), reduce=lambda counts, hidden, *_: seen.update(dict.fromkeys(counts, hidden)))
    memory = stock.encoder(torch.cat([tokens[half:], tokens[:half]]), src_lengths=None)
    states = stock.decoder(tokens, encoder_out=memory, features_only=True)[0]
    expected = model.lm_head.transform(states[sample["masked"]])
    torch.testing.assert_close(seen["cs_mlm"], expected, **CLOSE)
    assert float(expected.std(dim=0).mean()) > 0.1
