"""Test VECO's architectures, choices of layers, and options that are refused."""

import argparse

import pytest
import torch
from fairseq import models

from fairseq_plugins.veco.config import parse_layers
from tests import builders, veco_builders
from tests.veco_builders import KINDS, LAYERS


@pytest.mark.cases(
    "arch layers width inner heads",
    ("veco_tiny", 4, 256, 1024, 4),
    ("veco_base", 12, 768, 3072, 12),
    ("veco_large", 24, 1024, 4096, 16),
)
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch, layers, width, inner, heads):
    model = builders.built_both_ways(arch, "translation", veco_builders.task(), "meta")
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (layers, min(6, layers))
    for side in (model.encoder, model.decoder):
        layer = side.layers[0]
        assert (layer.fc1.in_features, layer.fc1.out_features) == (width, inner)
        assert layer.self_attn.num_heads == heads
        assert side.embed_positions.weight.shape == (514, width)
        assert side.layernorm_embedding.weight.shape == (width,)
        assert side.layer_norm is None and side.embed_scale == width**0.5
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    args = model.args
    assert (args.activation_fn, args.dropout, args.attention_dropout) == ("gelu", 0.1, 0.0)


def test_the_large_model_has_662_million_parameters():
    """Section 3: "~ 662M parameters"; section 2.3: cross-attention is "less than 20%" of them."""
    args = argparse.Namespace(arch="veco_large")
    models.ARCH_CONFIG_REGISTRY["veco_large"](args)
    with torch.device("meta"):
        model = models.build_model(args, veco_builders.task(True, pieces=250002 - 5))
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


@pytest.mark.cases(
    "text message",
    ("1,4", "layer 4 is out of range; valid: 0 to 3"),
    ("2,1", "in increasing order"),
    ("1,1", "each layer once"),
    *((text, "from 1 to the 4 layers") for text in ("last:0", "every:0", "every:5")),
    *((text, "valid: a list") for text in ("first:3", "-1")),
)
def test_bad_choices_of_layers_are_refused(text, message):
    with pytest.raises(ValueError, match=f"--keep-decoder-layers '?{text}'?: .*{message}"):
        veco_builders.translator(keep_decoder_layers=text)


@pytest.mark.parametrize("kind", KINDS)
def test_chosen_layers_set_the_depth_and_stay_in_the_options(kind):
    args = veco_builders.arguments(kind, keep_encoder_layers="1,3", keep_decoder_layers="every:2")
    for _ in range(2):  # decoding builds again from the options that the checkpoint keeps
        model = veco_builders.translator(args)
        assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 2)
        assert model.choice == (LAYERS, (1, 3), (1, 3))
        layers = (args.encoder_layers, args.decoder_layers, args.keep_encoder_layers)
        assert layers == (LAYERS, 2, "1,3")


@pytest.mark.cases(
    "options message",
    ({"keep_encoder_layers": "1,1"}, "--keep-encoder-layers 1,1"),
    ({"keep_decoder_layers": "last:2", "decoder_layers": 3}, "--decoder-layers 3: .* 2 layers"),
    ({"encoder_layers_to_keep": "0,1"}, "--encoder-layers-to-keep 0,1: .*--keep-encoder-layers"),
    ({"embedding_mismatch": "cut"}, "--embedding-mismatch must be one of .*; got cut"),
)
def test_bad_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        veco_builders.translator(**options)


@pytest.mark.cases(
    "options message",
    ({"decoder_layers": 2}, "--decoder-layers 2: .*valid here: 4"),
    ({"keep_decoder_layers": "last:2"}, "--keep-decoder-layers last:2"),
    ({"max_target_positions": 20}, "--max-target-positions 20: .*valid here: 40"),
    ({"no_scale_embedding": False}, "--no-scale-embedding false"),
    ({"share_all_embeddings": False}, "--share-all-embeddings false"),
    ({"encoder_layerdrop": 0.2}, "--encoder-layerdrop 0.2"),
    ({"decoder_normalize_before": True}, "--decoder-normalize-before True: .*valid here: False"),
    ({"decoder_output_dim": 8}, "--decoder-output-dim 8: .*valid here: 16"),
    ({"activation_fn": "relu"}, "--activation-fn relu .*valid: gelu"),
    ({"layernorm_embedding": False}, "--layernorm-embedding False .*valid: True"),
)
def test_pretraining_refuses_options_that_part_encoder_and_decoder(options, message):
    with pytest.raises(ValueError, match=message):
        veco_builders.pretrainer(**options)
