"""Pre-training: both routes, what is tied, what runs, what trains while the backbone is frozen. Equations: tests/reference."""

import pytest
import torch

from fairseq_plugins.checkpoints.layouts import family_layout
from fairseq_plugins.understanding.encoder import TextEncoder
from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.veco_builders import LAYERS

CLOSE = dict(rtol=0, atol=1e-5)


@pytest.fixture
def model(device):
    return veco_builders.random_pretrainer().to(device)


def batch(device, **options):
    return builders.to_device(veco_builders.batch(**options), device)


def loss_of(model, sample):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig())(model, sample)


def is_cross_attention(name):
    return ".encoder_attn." in name or ".encoder_attn_layer_norm." in name


def test_both_routes_have_the_same_tensors(model):
    names = {name for name, _ in model.named_parameters()}
    state = model.state_dict(keep_vars=True)
    for name, tensor in state.items():
        if name.startswith("decoder.layers."):
            shared = state.get(name.replace("decoder.", "encoder."))
            assert is_cross_attention(name) == (shared is not tensor), name
    assert state["lm_head.weight"] is state["decoder.output_projection.weight"] is state["encoder.embed_tokens.weight"]
    assert state["decoder.embed_positions.weight"] is state["encoder.embed_positions.weight"]
    crossing = {name for name in state if name.startswith("decoder.") and is_cross_attention(name)}
    assert {name for name in names if name.startswith("decoder.")} == crossing
    assert model.encoder.embed_scale == model.decoder.embed_scale == 1.0
    assert model.max_positions() == builders.POSITIONS


def test_weights_start_as_berts():
    model = veco_builders.pretrainer(encoder_embed_dim=64, decoder_embed_dim=64)
    spreads = [float(tensor.detach().std()) for tensor in model.parameters() if tensor.dim() == 2]
    assert 0.015 < min(spreads) < max(spreads) < 0.025
    assert not bool(model.encoder.embed_tokens.weight[builders.PAD].any()) and not bool(model.lm_head.bias.any())


def step(model, sample, optimizer):
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer.zero_grad()
    loss_of(model, sample)[0].backward()
    optimizer.step()
    return {name: not torch.equal(before[name], parameter) for name, parameter in model.named_parameters()}


def test_only_cross_attention_moves_while_frozen_and_all_after(model, device):
    sample = batch(device)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)  # made before, as fairseq's
    model.freeze_backbone(True)
    changes = step(model, sample, optimizer)
    assert {name for name, results in changes.items() if results} == {
        name for name in changes if is_cross_attention(name)
    }
    assert len(changes) > sum(changes.values()) > 10
    model.freeze_backbone(False)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(step(model, sample, optimizer).values())


def test_while_frozen_training_computes_cs_mlm_alone(model, device):
    sample = batch(device)
    model.freeze_backbone(True)
    assert set(model(**sample["net_input"])) == {"is_mlm", "cs_mlm", "tlm"}  # validation measures everything
    model.train()
    assert set(model(**sample["net_input"])) == {"cs_mlm"}
    with pytest.raises(ValueError, match="--objectives without cs: nothing trains while --freeze-backbone-updates"):
        model(**sample["net_input"], objectives=("is", "tlm"))
    model.freeze_backbone(False)
    assert set(model(**sample["net_input"])) == {"is_mlm", "cs_mlm", "tlm"}


def test_checkpointed_activations_give_the_frozen_phase_the_same_gradients(device):
    """A checkpointed layer, none of whose inputs needs a gradient, would give its cross-attention none."""
    results = []
    for checkpointed in (False, True):
        model = veco_builders.random_pretrainer(checkpoint_activations=checkpointed).to(device).train()
        model.freeze_backbone(True)
        torch.manual_seed(1)  # dropout
        loss_of(model, batch(device))[0].backward()
        results.append(
            {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        )
    plain, again = results
    assert set(plain) == set(again) and all(is_cross_attention(name) for name in plain) and plain
    selection = [name for name in plain if "k_proj.bias" not in name]
    assert all(torch.equal(again[name], plain[name]) and bool(plain[name].any()) for name in selection)


def test_only_what_is_needed_runs(model, device):
    calls, rows = [], {}
    for side in ("encoder", "decoder"):
        getattr(model, side).register_forward_hook(lambda *_, side=side: calls.append(side))
    for objectives, parallel, expected in (
        (("is", "cs", "tlm"), True, ["encoder", "decoder", "encoder"]),
        (("is", "cs", "tlm"), False, ["encoder", "decoder"]),
        (("is",), True, ["encoder"]),
        (("tlm",), True, ["encoder"]),
    ):
        calls.clear()
        model(**batch(device, parallel=parallel)["net_input"], objectives=objectives)
        assert calls == expected
    net_input = batch(device)["net_input"]
    model(**net_input, reduce=lambda counts, hidden, *_: rows.update(counts, all=len(hidden)))
    count, pairs = (int(net_input[name].sum()) for name in ("masked", "joint_masked"))
    assert rows == {"is_mlm": count, "cs_mlm": count, "tlm": pairs, "all": 2 * count + pairs}


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
    selection = tokens.ne(builders.PAD)
    assert torch.equal(route[selection], encoder(tokens)[-1][selection])
    assert float(route[selection].std(dim=0).mean()) > 0.1


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
