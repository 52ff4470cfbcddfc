"""Test DeltaLM: the authors' outputs, sizes, identities with stock layers, decoding, training."""

import copy

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from fairseq_plugins.deltalm.layer import InterleavedDecoderLayer
from fairseq_plugins.deltalm.model import DeltaLMModel, InterleavedDecoder
from tests import builders, deltalm_builders
from tests.deltalm_builders import net_input, random_model

# Layers of the encoder and of the decoder, width, feed-forward width, heads: the paper's base and
# its released sizes.
ARCHS = {
    "deltalm_tiny": (4, 2, 256, 1024, 4),
    "deltalm_base": (12, 6, 768, 3072, 12),
    "deltalm_large": (24, 12, 1024, 4096, 16),
}


@pytest.fixture
def golden(repo_root):
    """Load a random model in the released layout, and the outputs of the authors' code for it."""
    folder = repo_root.parent / "shared" / "golden"
    released, expected = (folder / f"deltalm_tiny_{name}.pt" for name in ("released", "expected"))
    if not (released.is_file() and expected.is_file()):
        pytest.skip(
            "needs ../shared/golden/deltalm_tiny_*.pt, which are not part of the repository"
        )
    return released, torch.load(expected, weights_only=True)


@pytest.mark.cases("kind arch", ("argparse", "deltalm_tiny"), ("omegaconf", "deltalm_base"))
@torch.no_grad()
def test_a_released_model_gives_the_authors_numbers(golden, kind, arch, device):
    released, expected = golden
    config = expected["config"]
    sizes = {f"max_{side}_positions": config["max_positions"] for side in ("source", "target")}
    for side in ("encoder", "decoder"):
        sizes[f"{side}_layers"] = config[f"{side}_layers"]
        for name in ("embed_dim", "ffn_embed_dim", "attention_heads"):
            sizes[f"{side}_{name}"] = config[name]
    sizes["pretrained_deltalm_checkpoint"] = str(released)
    args = deltalm_builders.arguments(kind, arch, **sizes)
    model = deltalm_builders.build(args, dict(pieces=config["dictionary_size"] - 5))
    model = model.eval().to(device)
    tokens, shifted = (expected[name].to(device) for name in ("src_tokens", "prev_output_tokens"))
    lengths = expected["src_lengths"].to(device)
    assert bool(tokens.eq(builders.PAD).any()) and bool(shifted.eq(builders.PAD).any())
    outputs = {
        "encoder_out": model.encoder(tokens, src_lengths=lengths)["encoder_out"][0].cpu(),
        "logits": model(tokens, lengths, shifted)[0].cpu(),
    }
    real_tokens = {
        "encoder_out": expected["src_tokens"].t().ne(builders.PAD),
        "logits": expected["prev_output_tokens"].ne(builders.PAD),
    }
    for name, mask in real_tokens.items():
        numbers = expected[name][mask]
        assert float(numbers.std(dim=0).mean()) > 0.05
        torch.testing.assert_close(outputs[name][mask], numbers, rtol=0, atol=1e-4)


def read_sizes(model):
    """Return the numbers of layers and the sizes that all sublayers of both sides share."""
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    attentions = (encoder.self_attn, decoder.self_attn, decoder.encoder_attn)
    (heads,) = {attention.num_heads for attention in attentions}
    (sizes,) = {
        (layer.fc1.in_features, layer.fc1.out_features, heads) for layer in (encoder, decoder)
    }
    assert decoder.fc3.weight.shape == decoder.fc1.weight.shape
    assert decoder.fc4.weight.shape == decoder.fc2.weight.shape
    return (len(model.encoder.layers), len(model.decoder.layers), *sizes)


@pytest.mark.parametrize("arch", list(ARCHS))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    task = deltalm_builders.task()
    model = builders.built_both_ways(arch, "translation", task, "meta", share_all_embeddings=True)
    assert isinstance(model, DeltaLMModel) and isinstance(model.decoder, InterleavedDecoder)
    assert read_sizes(model) == ARCHS[arch]
    for side in (model.encoder, model.decoder):
        assert (side.layernorm_embedding is None) is (arch == "deltalm_large")
        assert side.embed_scale == 1.0 and isinstance(side.embed_positions, nn.Embedding)  # learned
        assert side.embed_tokens.weight.shape == (builders.VOCAB, ARCHS[arch][2])
        assert side.layer_norm is None  # post-norm
        gelu = side.layers[0].activation_fn(torch.tensor(-1.0)).item()
        assert gelu == pytest.approx(-0.1587, abs=1e-4)
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight


def test_the_command_line_wins_over_the_architecture():
    task = deltalm_builders.task()
    values = dict(deltalm_builders.SIZES, encoder_layers=3, decoder_layers=1)
    values.update(dropout=0.3, attention_dropout=0.2, activation_dropout=0.25)
    values.update(max_source_positions=17, max_target_positions=13)
    values.update(activation_fn="relu", share_decoder_input_output_embed=True)
    model = builders.built_both_ways("deltalm_large", "translation", task, "meta", **values)
    assert read_sizes(model) == (3, 1, builders.WIDTH, builders.FFN, builders.HEADS)
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
    stock = TransformerModel.build_model(copy.deepcopy(model.args), deltalm_builders.task()).eval()
    stock.load_state_dict(model.state_dict())
    assert torch.equal(model(**net_input())[0], stock(**net_input())[0])


def build_layers(pre_norm):
    """An interleaved layer whose bottom FFN gives zero, and a stock layer with the same weights."""
    args = deltalm_builders.arguments(decoder_normalize_before=pre_norm, dropout=0.0)
    cfg = TransformerConfig.from_namespace(args)
    ours, theirs = InterleavedDecoderLayer(cfg).eval(), TransformerDecoderLayerBase(cfg).eval()
    deltalm_builders.randomise(ours, 6)
    ours.fc4.weight.data.zero_()
    ours.fc4.bias.data.zero_()
    bottom = ("fc3.", "fc4.", "ffn_layer_norm.")
    state = ours.state_dict()
    theirs.load_state_dict({name: state[name] for name in state if not name.startswith(bottom)})
    return ours, theirs


@pytest.mark.cases(
    "pre_norm needs",
    (True, {}),
    (True, {"need_head_weights": True}),
    (False, {"need_attn": True}),
)
@torch.no_grad()
def test_without_its_bottom_ffn_a_layer_is_the_stock_layer(pre_norm, needs):
    """With post-norm the FFN's layer norm remains: two norms follow self-attention."""
    ours, theirs = build_layers(pre_norm)
    if not pre_norm:
        norms = (theirs.self_attn_layer_norm, ours.ffn_layer_norm)
        theirs.self_attn_layer_norm = nn.Sequential(*norms)
    random = builders.drawing(9)
    source_padding, padding = torch.zeros(3, 4).bool(), torch.zeros(3, 5).bool()
    source_padding[1, 2:] = padding[1, 0] = True  # a target padded on the left
    inputs = [random(length, 3, builders.WIDTH) for length in (5, 4)] + [source_padding]
    causal = torch.full((5, 5), float("-inf")).triu(1)
    masks = dict(self_attn_mask=causal, self_attn_padding_mask=padding)
    outputs, expected = (layer(*inputs, **masks, **needs) for layer in (ours, theirs))
    real = ~padding.t()  # a padded first position sees nothing
    assert torch.equal(outputs[0][real], expected[0][real])
    assert len(outputs) == len(expected) == 3 and outputs[2] is expected[2] is None
    assert torch.equal(outputs[1].nan_to_num(), expected[1].nan_to_num())
    assert outputs[1].dim() == (4 if "need_head_weights" in needs else 3)
    ours.fc4.weight.data.copy_(ours.fc3.weight.t())  # with its bottom FFN it is another function
    assert float((ours(*inputs, **masks)[0] - expected[0])[real].abs().max()) > 1e-2


@torch.no_grad()
def test_beam_search_scores_equal_full_decoding_of_each_sentence_alone(device):
    model = random_model().double().to(device)
    symbols = builders.dictionary()
    generator = SequenceGenerator([model], symbols, beam_size=5, max_len_b=9, min_len=3)
    data = builders.to_device(net_input(extra=1), device)
    sample = {"net_input": {name: data[name] for name in ("src_tokens", "src_lengths")}}
    beams = generator.generate([model], sample)
    assert [len(hypotheses) for hypotheses in beams] == [5, 5, 5]
    for row, hypotheses in enumerate(beams):
        source = data["src_tokens"][row : row + 1, : data["src_lengths"][row]]
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"][None]
            assert tokens.size(1) >= 4
            scores = model(source, None, tokens.roll(1, 1))[0].log_softmax(-1)
            expected = scores.gather(2, tokens[..., None])[0, :, 0]
            beam_scores = hypothesis["positional_scores"].double()
            torch.testing.assert_close(beam_scores, expected, rtol=0, atol=1e-5)


NO_DROPOUT = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)


@pytest.mark.parametrize(("name", "is_random"), zip(NO_DROPOUT, (True, False, True)))
@torch.no_grad()
def test_the_bottom_ffn_has_the_dropout_of_the_top_ffn(name, is_random):
    """The bottom FFN alone changes the state here, so any randomness comes from it."""
    cfg = TransformerConfig.from_namespace(deltalm_builders.arguments(**{**NO_DROPOUT, name: 0.5}))
    layer = InterleavedDecoderLayer(cfg)
    deltalm_builders.randomise(layer, 6)
    for linear in (layer.self_attn.out_proj, layer.encoder_attn.out_proj, layer.fc2):
        linear.weight.zero_()
        linear.bias.zero_()
    random = builders.drawing(9)
    states, source = (random(length, 3, builders.WIDTH) for length in (5, 4))
    first, second = (layer.train()(states, source)[0] for _ in range(2))
    assert torch.equal(first, second) is not is_random
    assert torch.equal(layer.eval()(states, source)[0], layer(states, source)[0])


def test_every_parameter_is_trained(device):
    model = random_model(**NO_DROPOUT).to(device).train()
    model(**builders.to_device(net_input(), device))[0].square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert [name for name, grad in gradients.items() if grad is None or not bool(grad.any())] == []


def test_checkpointed_activations_change_no_gradient(device):
    """The bottom FFN runs a second time for the backward pass."""
    data = builders.to_device(net_input(), device)
    gradients, runs = [], []
    for checkpointed in (False, True):
        model = random_model(dropout=0.2, checkpoint_activations=checkpointed)
        model = model.double().to(device).train()
        model.decoder.layers[0].fc3.register_forward_hook(lambda *_: runs.append(1))
        torch.manual_seed(3)
        model(**data)[0].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        assert len(runs) == (3 if checkpointed else 1)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-6, atol=1e-6)
