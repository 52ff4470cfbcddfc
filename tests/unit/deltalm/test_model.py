"""DeltaLM: the authors' numbers, sizes, identities with stock layers, decoding step by step, and what training changes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from fairseq_plugins.deltalm.layer import InterleavedDecoderLayer
from fairseq_plugins.deltalm.model import DeltaLMModel, InterleavedDecoder
from tests import builders, deltalm_builders
from tests.deltalm_builders import KINDS, net_input, random_model

# Layers of the encoder and of the decoder, width, feed-forward width, heads: the paper's base and its released sizes.
ARCHS = {"deltalm_tiny": (4, 2, 256, 1024, 4), "deltalm_base": (12, 6, 768, 3072, 12)}
ARCHS["deltalm_large"] = (24, 12, 1024, 4096, 16)


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


def sizes_of(model):
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    pairs = ((encoder, encoder.self_attn), (decoder, decoder.self_attn), (decoder, decoder.encoder_attn))
    (found,) = {(layer.fc1.in_features, layer.fc1.out_features, attention.num_heads) for layer, attention in pairs}
    assert decoder.fc3.weight.shape == decoder.fc1.weight.shape and decoder.fc4.weight.shape == decoder.fc2.weight.shape
    return (len(model.encoder.layers), len(model.decoder.layers), *found)


@pytest.mark.parametrize("arch", list(ARCHS))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    task = deltalm_builders.task()
    model = builders.built_both_ways(arch, "translation", task, "meta", share_all_embeddings=True)
    assert isinstance(model, DeltaLMModel) and isinstance(model.decoder, InterleavedDecoder)
    assert sizes_of(model) == ARCHS[arch]
    for side in (model.encoder, model.decoder):
        assert (side.layernorm_embedding is None) is (arch == "deltalm_large")
        assert side.embed_scale == 1.0 and isinstance(side.embed_positions, nn.Embedding)  # learned
        assert side.embed_tokens.weight.shape == (builders.VOCAB, ARCHS[arch][2])
        assert side.layer_norm is None  # post-norm
        assert side.layers[0].activation_fn(torch.tensor(-1.0)).item() == pytest.approx(-0.1587, abs=1e-4)  # GELU
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    values = dict(deltalm_builders.SIZES, dropout=0.3, attention_dropout=0.2, activation_dropout=0.25)
    values.update(max_source_positions=17, max_target_positions=13, encoder_layers=3, decoder_layers=1)
    values.update(activation_fn="relu", share_decoder_input_output_embed=True)
    model = builders.built_both_ways(arch, "translation", task, "meta", **values)
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
@torch.no_grad()
def test_without_its_bottom_ffn_a_layer_is_the_stock_layer(pre_norm, needs):
    """Post-norm, its layer norm remains: the stock layer whose first norm is the two in a row. All return values."""
    ours, theirs = layers(pre_norm)
    if not pre_norm:
        theirs.self_attn_layer_norm = nn.Sequential(theirs.self_attn_layer_norm, ours.ffn_layer_norm)
    random, hidden, padding = builders.drawing(9), torch.zeros(3, 4).bool(), torch.zeros(3, 5).bool()
    hidden[1, 2:] = padding[1, 0] = True  # a target padded on the left
    given = [random(n, 3, builders.WIDTH) for n in (5, 4)] + [hidden]
    masks = dict(self_attn_mask=torch.full((5, 5), float("-inf")).triu(1), self_attn_padding_mask=padding)
    found, expected = (layer(*given, **masks, **needs) for layer in (ours, theirs))
    kept = ~padding.t()  # a padded first position sees nothing
    assert torch.equal(found[0][kept], expected[0][kept])
    assert len(found) == len(expected) == 3 and found[2] is expected[2] is None
    assert torch.equal(found[1].nan_to_num(), expected[1].nan_to_num())
    assert found[1].dim() == (4 if "need_head_weights" in needs else 3)
    ours.fc4.weight.data.copy_(ours.fc3.weight.t())  # with its bottom FFN it is another function
    assert float((ours(*given, **masks)[0] - expected[0])[kept].abs().max()) > 1e-2


@torch.no_grad()
def test_scores_of_beam_search_are_those_of_full_decoding_of_each_sentence_alone(device):
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


CALM = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)


@pytest.mark.parametrize(("name", "random"), zip(CALM, (True, False, True)))
@torch.no_grad()
def test_the_bottom_ffn_has_the_dropout_of_the_top_one(name, random):
    """Only the bottom FFN changes the state here: whatever is random is random because of it."""
    cfg = TransformerConfig.from_namespace(deltalm_builders.arguments(**{**CALM, name: 0.5}))
    layer = InterleavedDecoderLayer(cfg)
    deltalm_builders.randomise(layer, 6)
    for linear in (layer.self_attn.out_proj, layer.encoder_attn.out_proj, layer.fc2):
        linear.weight.zero_()
        linear.bias.zero_()
    generator = torch.Generator().manual_seed(9)
    states, source = (torch.randn(n, 3, builders.WIDTH, generator=generator) for n in (5, 4))
    first, second = (layer.train()(states, source)[0] for _ in range(2))
    assert torch.equal(first, second) is not random
    assert torch.equal(layer.eval()(states, source)[0], layer(states, source)[0])


def loss_of(model):
    target = builders.sample(next(model.parameters()).device)["target"]
    logits = model(**builders.to_device(net_input(), target.device))[0]
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=builders.PAD, reduction="sum")


def test_every_parameter_is_trained_and_an_update_changes_the_loss(device):
    model = random_model(**CALM).to(device).train()
    before = loss_of(model)
    before.backward()
    assert [name for name, one in model.named_parameters() if one.grad is None or not bool(one.grad.any())] == []
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    assert bool(loss_of(model) < before)


def test_checkpointed_activations_change_nothing_but_the_work(device):
    data, found = builders.to_device(net_input(), device), []
    for checkpointed in (False, True):
        model = random_model(dropout=0.2, checkpoint_activations=checkpointed).double().to(device).train()
        runs = []
        model.decoder.layers[0].fc3.register_forward_hook(lambda *_, runs=runs: runs.append(1))
        torch.manual_seed(3)
        model(**data)[0].square().sum().backward()
        found.append(([parameter.grad for parameter in model.parameters()], len(runs)))
    (plain, once), (checkpointed, twice) = found
    assert (once, twice) == (1, 2)  # the second time for the backward pass
    torch.testing.assert_close(checkpointed, plain, rtol=1e-6, atol=1e-6)
