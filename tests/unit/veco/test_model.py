"""Test the pre-training model: both routes, tied tensors, the frozen phase, what is computed.

tests/reference compares its losses with the equations.
"""

import pytest
import torch

from fairseq_plugins.checkpoints import read_masked_lm
from fairseq_plugins.understanding.encoder import load_text_encoder
from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.veco_builders import LAYERS, PAD

OBJECTIVES = {"is_mlm", "cs_mlm", "tlm"}


@pytest.fixture
def model(device):
    return veco_builders.random_pretrainer().to(device)


def make_batch(device, **options):
    return builders.to_device(veco_builders.batch(**options), device)


def loss_of(model, sample):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig())(model, sample)[0]


def is_cross_attention(name):
    return ".encoder_attn." in name or ".encoder_attn_layer_norm." in name


def test_both_routes_have_the_same_tensors(model):
    state = model.state_dict(keep_vars=True)
    for name, tensor in state.items():
        if name.startswith("decoder.layers."):
            is_shared = state.get(name.replace("decoder.", "encoder.")) is tensor
            assert is_cross_attention(name) != is_shared, name
    words, positions = (state[f"encoder.embed_{part}.weight"] for part in ("tokens", "positions"))
    assert state["lm_head.weight"] is state["decoder.output_projection.weight"] is words
    assert state["decoder.embed_positions.weight"] is positions
    decoder = [name for name, _ in model.named_parameters() if name.startswith("decoder.")]
    assert decoder and all(map(is_cross_attention, decoder))
    assert model.encoder.embed_scale == model.decoder.embed_scale == 1.0
    assert model.max_positions() == builders.POSITIONS


def test_weights_start_as_berts():
    model = veco_builders.pretrainer(encoder_embed_dim=64, decoder_embed_dim=64)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    deviations = [matrix.std().item() for matrix in matrices]
    assert 0.015 < min(deviations) < max(deviations) < 0.025
    assert not model.encoder.embed_tokens.weight[PAD].any() and not model.lm_head.bias.any()


def step(model, sample, optimizer):
    """Names of the parameters that a training step changes."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer.zero_grad()
    loss_of(model, sample).backward()
    optimizer.step()
    return {
        name
        for name, parameter in model.named_parameters()
        if not torch.equal(before[name], parameter)
    }


def test_only_cross_attention_moves_while_frozen_and_all_after(model, device):
    sample = make_batch(device)
    names = {name for name, _ in model.named_parameters()}
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.01, weight_decay=0.1)
    model.freeze_backbone(True)  # after the optimizer was made, as in fairseq
    assert step(model, sample, optimizer) == {*filter(is_cross_attention, names)}
    model.freeze_backbone(False)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert step(model, sample, optimizer) == names


def test_while_frozen_only_training_is_limited_to_cs_mlm(model, device):
    net_input = make_batch(device)["net_input"]
    model.freeze_backbone(True)
    assert set(model(**net_input)) == OBJECTIVES  # in validation
    model.train()
    assert set(model(**net_input)) == {"cs_mlm"}
    with pytest.raises(ValueError, match="--objectives without cs: .*--freeze-backbone-updates"):
        model(**net_input, objectives=("is", "tlm"))
    model.freeze_backbone(False)
    assert set(model(**net_input)) == OBJECTIVES


def test_checkpointed_activations_give_the_frozen_phase_the_same_gradients(device):
    """Checkpointing a layer loses its gradients if no input of it needs one."""
    gradients = []
    for checkpointed in (False, True):
        model = veco_builders.random_pretrainer(checkpoint_activations=checkpointed)
        model.to(device).train().freeze_backbone(True)
        torch.manual_seed(1)  # dropout
        loss_of(model, make_batch(device)).backward()
        parameters = dict(model.named_parameters())
        gradients.append(
            {name: part.grad for name, part in parameters.items() if part.requires_grad}
        )
    plain, checkpointed = gradients
    assert plain and all(map(is_cross_attention, plain))
    for name, gradient in plain.items():
        if "k_proj.bias" not in name:  # zero but for rounding
            assert gradient.any() and torch.equal(checkpointed[name], gradient), name


def test_the_head_sees_masked_positions_only(model, device):
    net_input, rows = make_batch(device)["net_input"], {}
    model(**net_input, reduce=lambda counts, hidden, *_: rows.update(counts, all=len(hidden)))
    count, joint_count = (int(net_input[name].sum()) for name in ("masked", "joint_masked"))
    total = 2 * count + joint_count
    assert rows == {"is_mlm": count, "cs_mlm": count, "tlm": joint_count, "all": total}


@torch.no_grad()
def test_a_checkpoint_is_an_xlmr_encoder_and_a_masked_lm(tmp_path):
    args, path = veco_builders.arguments(), tmp_path / "model.pt"
    model = veco_builders.random_pretrainer(args=args)
    torch.save({"args": None, "cfg": {"model": args}, "model": model.state_dict()}, path)
    encoder = load_text_encoder(path)
    assert encoder.layout.layers == LAYERS and not encoder.layout.scale_embedding
    tokens = veco_builders.batch(extra=2)["net_input"]["src_tokens"]
    states = model.encoder(tokens)["encoder_out"][0].transpose(0, 1)
    is_token = tokens.ne(PAD)
    assert torch.equal(encoder(tokens)[-1][is_token], states[is_token])
    assert float(states[is_token].std(dim=0).mean()) > 0.1
    assert torch.equal(read_masked_lm(path).tensors["lm_head.bias"], model.lm_head.bias)


@torch.no_grad()
def test_the_decoder_with_all_layers_equals_stock_fairseq():
    model = veco_builders.random_pretrainer()
    stock = veco_builders.stock_model(veco_builders.dictionary(mask=True), scaled=False)
    state = model.state_dict()
    stock.load_state_dict({name: state[name] for name in state if not name.startswith("lm_head.")})
    sample, outputs = veco_builders.batch(extra=1)["net_input"], []
    model(**sample, objectives=("cs",), reduce=lambda counts, hidden, *_: outputs.append(hidden))
    tokens = sample["src_tokens"]
    other_side = tokens.roll(len(tokens) // 2, dims=0)
    memory = stock.encoder(other_side, src_lengths=None)
    states, _ = stock.decoder(tokens, encoder_out=memory, features_only=True)
    expected = model.lm_head.transform(states[sample["masked"]])
    torch.testing.assert_close(outputs, [expected], rtol=0, atol=1e-5)
    assert float(expected.std(dim=0).mean()) > 0.1
