"""DeltaLM: the authors' numbers, sizes, identities with stock layers, decoding step by step, and what training changes."""

import copy

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from fairseq_plugins.models.deltalm import DeltaLMModel, InterleavedDecoder
from fairseq_plugins.modules.interleaved_layer import InterleavedDecoderLayer
from tests import builders, deltalm_builders
from tests.deltalm_builders import KINDS, net_input, random_model

# hydra's own deprecations, called by fairseq.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

CLOSE = dict(rtol=0, atol=1e-5)
# Layers of the encoder and of the decoder, width, feed-forward width, heads: the paper's base and its released sizes.
ARCHS = {
    "deltalm_tiny": (4, 2, 256, 1024, 4),
    "deltalm_base": (12, 6, 768, 3072, 12),
    "deltalm_large": (24, 12, 1024, 4096, 16),
}


@pytest.fixture
def golden(repo_root):
    """A random model in the released layout, and what the authors' implementation gives for it."""
    folder = repo_root.parent / "shared" / "golden"
    released, expected = (folder / f"deltalm_tiny_{name}.pt" for name in ("released", "expected"))
    if not (released.is_file() and expected.is_file()):
        pytest.skip("needs ../shared/golden/deltalm_tiny_*.pt, which are not part of the repository")
    return released, torch.load(expected, weights_only=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arch", ["deltalm_tiny", "deltalm_base"])
@torch.no_grad()
def test_a_released_model_gives_the_authors_numbers(golden, kind, arch, device):
    released, expected = golden
    config = expected["config"]
    sizes = {f"max_{side}_positions": config["max_positions"] for side in ("source", "target")}
    for side in ("encoder", "decoder"):
        sizes[f"{side}_layers"] = config[f"{side}_layers"]
        sizes.update({f"{side}_{name}": config[name] for name in ("embed_dim", "ffn_embed_dim", "attention_heads")})
    args = deltalm_builders.arguments(kind, arch, pretrained_deltalm_checkpoint=str(released), **sizes)
    model = deltalm_builders.build(args, dict(pieces=config["dictionary_size"] - 5)).eval().to(device)
    tokens, shifted = (expected[name].to(device) for name in ("src_tokens", "prev_output_tokens"))
    assert bool(tokens.eq(builders.PAD).any()) and bool(shifted.eq(builders.PAD).any())
    encoded = model.encoder(tokens, src_lengths=expected["src_lengths"].to(device))["encoder_out"][0].cpu()
    logits = model(tokens, expected["src_lengths"].to(device), shifted)[0].cpu()
    kept = expected["src_tokens"].t().ne(builders.PAD), expected["prev_output_tokens"].ne(builders.PAD)
    for found, wanted, mask in zip((encoded, logits), (expected["encoder_out"], expected["logits"]), kept):
        assert float(wanted[mask].std(dim=0).mean()) > 0.05
        torch.testing.assert_close(found[mask], wanted[mask], rtol=0, atol=1e-4)


def shapes(model):
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def sizes_of(model):
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    pairs = ((encoder, encoder.self_attn), (decoder, decoder.self_attn), (decoder, decoder.encoder_attn))
    found = [(layer.fc1.in_features, layer.fc1.out_features, attention.num_heads) for layer, attention in pairs]
    assert len(set(found)) == 1
    assert decoder.fc3.weight.shape == decoder.fc1.weight.shape and decoder.fc4.weight.shape == decoder.fc2.weight.shape
    return (len(model.encoder.layers), len(model.decoder.layers), *found[0])


def both_ways(arch, **given):
    return builders.built_both_ways(arch, "translation", deltalm_builders.task(), "meta", **given)


@pytest.mark.parametrize("arch", list(ARCHS))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    model = both_ways(arch, share_all_embeddings=True)
    assert isinstance(model, DeltaLMModel) and isinstance(model.decoder, InterleavedDecoder)
    assert sizes_of(model) == ARCHS[arch]
    for side in (model.encoder, model.decoder):
        assert (side.layernorm_embedding is None) is (arch == "deltalm_large")
        assert side.embed_scale == 1.0
        assert isinstance(side.embed_positions, nn.Embedding)  # learned
        assert side.embed_tokens.weight.shape == (builders.VOCAB, ARCHS[arch][2])
        assert side.layer_norm is None  # post-norm
        assert side.layers[0].activation_fn(torch.tensor(-1.0)).item() == pytest.approx(-0.1587, abs=1e-4)  # GELU
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight


@pytest.mark.parametrize("arch", list(ARCHS))
def test_given_sizes_win_over_the_architecture(arch):
    values = dict(deltalm_builders.SIZES, dropout=0.3, attention_dropout=0.2, activation_dropout=0.25)
    values.update(max_source_positions=17, max_target_positions=13, encoder_layers=3, decoder_layers=1)
    model = both_ways(arch, activation_fn="relu", share_decoder_input_output_embed=True, **values)
    assert sizes_of(model) == (3, 1, builders.WIDTH, builders.FFN, builders.HEADS)
    assert model.max_positions() == (17, 13)
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    assert model.decoder.embed_tokens.weight is not model.encoder.embed_tokens.weight
    for layer in (model.encoder.layers[0], model.decoder.layers[0]):
        assert layer.activation_fn(torch.tensor(-1.0)).item() == 0.0
        assert (layer.dropout_module.p, layer.self_attn.dropout_module.p) == (0.3, 0.2)
        assert layer.activation_dropout_module.p == 0.25


@torch.no_grad()
def test_vanilla_is_the_stock_transformer():
    model = random_model(decoder_block="vanilla")
    twin = TransformerModel.build_model(copy.deepcopy(model.args), deltalm_builders.task()).eval()
    twin.load_state_dict(model.state_dict())
    assert torch.equal(model(**net_input())[0], twin(**net_input())[0])
    assert shapes(model) == shapes(twin)


def test_an_unknown_block_is_refused():
    with pytest.raises(ValueError, match="--decoder-block.*sandwich"):
        deltalm_builders.build(decoder_block="sandwich")


def layers(pre_norm):
    """An interleaved layer whose bottom FFN gives zero, and a stock layer with the same weights."""
    args = deltalm_builders.arguments(decoder_normalize_before=pre_norm, dropout=0.0)
    cfg = TransformerConfig.from_namespace(args)
    ours, theirs = InterleavedDecoderLayer(cfg).eval(), TransformerDecoderLayerBase(cfg).eval()
    deltalm_builders.randomise(ours, 6)
    ours.fc4.weight.data.zero_()
    ours.fc4.bias.data.zero_()
    bottom = ("fc3.", "fc4.", "ffn_layer_norm.")
    theirs.load_state_dict({name: t for name, t in ours.state_dict().items() if not name.startswith(bottom)})
    return ours, theirs


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("needs", [{}, {"need_attn": True}, {"need_head_weights": True}])
@pytest.mark.parametrize("train", [False, True])
def test_without_its_bottom_ffn_a_layer_is_the_stock_layer(pre_norm, needs, train):
    """Post-norm, its layer norm remains: the stock layer whose first norm is the two in a row. All return values."""
    ours, theirs = layers(pre_norm)
    if not pre_norm:
        theirs.self_attn_layer_norm = nn.Sequential(theirs.self_attn_layer_norm, ours.ffn_layer_norm)
    generator = torch.Generator().manual_seed(9)
    states, source = (torch.randn(n, 3, builders.WIDTH, generator=generator) for n in (5, 4))
    future = torch.full((5, 5), float("-inf")).triu(1)
    hidden = torch.zeros(3, 4, dtype=torch.bool)
    hidden[1, 2:] = True
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 0] = True  # a target padded on the left
    results = []
    for layer in (ours, theirs):
        layer.train(train)
        masks = dict(self_attn_mask=future, self_attn_padding_mask=padding)
        results.append(layer(states, source, hidden, **masks, **needs))
    assert len(results[0]) == len(results[1]) == 3
    kept = ~padding.t()  # a padded first position sees nothing
    assert torch.equal(results[0][0][kept], results[1][0][kept])
    assert results[0][2] is results[1][2] is None
    assert (results[0][1] is None) is (results[1][1] is None)
    if results[1][1] is not None:
        assert torch.equal(results[0][1].nan_to_num(), results[1][1].nan_to_num())
        assert results[1][1].dim() == (4 if "need_head_weights" in needs else 3)
    ours.fc4.weight.data.copy_(ours.fc3.weight.t())  # with its bottom FFN it is another function
    assert float((ours(states, source, hidden, **masks)[0] - results[1][0])[kept].abs().max()) > 1e-2


def test_a_decoder_without_cross_attention_does_not_see_the_source():
    model = random_model(no_cross_attention=True)
    assert not any("encoder_attn" in name for name in model.state_dict())
    data = net_input()
    first = model(**data)[0]
    data["src_tokens"] = data["src_tokens"].roll(1, 0)
    assert torch.equal(model(**data)[0], first)


@torch.no_grad()
def test_scores_of_beam_search_are_those_of_full_decoding_of_each_sentence_alone(device):
    """Sources of three lengths, with one more column of padding than needed."""
    model = random_model().double().to(device)
    generator = SequenceGenerator([model], builders.dictionary(), beam_size=5, max_len_b=9, min_len=3)
    data = builders.to_device(net_input(extra=1), device)
    found = generator.generate([model], {"net_input": {name: data[name] for name in ("src_tokens", "src_lengths")}})
    assert [len(hypotheses) for hypotheses in found] == [5, 5, 5]
    for row, hypotheses in enumerate(found):
        source = data["src_tokens"][row : row + 1, : data["src_lengths"][row]]
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"][None]
            assert tokens.size(1) >= 4
            scores = model(source, None, tokens.roll(1, 1))[0].log_softmax(-1)
            expected = scores.gather(2, tokens[..., None])[0, :, 0]
            torch.testing.assert_close(hypothesis["positional_scores"].double(), expected, rtol=0, atol=1e-5)
