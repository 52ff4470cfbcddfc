"""DeltaLM in training: dropout, layer drop, activation checkpointing, pruned layers, and options that are refused."""

import pytest
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig

from fairseq_plugins.modules.interleaved_layer import NOT_IN_THE_BLOCK, InterleavedDecoderLayer
from tests import builders, deltalm_builders
from tests.deltalm_builders import net_input, random_model

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


def dropouts(**rates):
    return {name: rates.get(name, 0.0) for name in DROPOUTS}


@pytest.mark.parametrize("name", DROPOUTS)
@torch.no_grad()
def test_dropout_acts_in_training_only(name, device):
    model = random_model(**dropouts(**{name: 0.5})).to(device)
    data = builders.to_device(net_input(), device)
    calm = random_model(**dropouts()).to(device)
    assert torch.equal(model(**data)[0], model(**data)[0])
    assert torch.equal(model(**data)[0], calm(**data)[0])
    model.train(), calm.train()
    assert float((model(**data)[0] - model(**data)[0]).abs().max()) > 1e-2
    assert torch.equal(calm(**data)[0], calm(**data)[0])


@pytest.mark.parametrize(
    ("name", "random"), [("dropout", True), ("activation_dropout", True), ("attention_dropout", False)]
)
@torch.no_grad()
def test_the_bottom_ffn_has_the_dropout_of_the_top_one(name, random):
    """Only the bottom FFN changes the state here: whatever is random is random because of it."""
    cfg = TransformerConfig.from_namespace(deltalm_builders.arguments(**dropouts(**{name: 0.5})))
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


def losses(model, data):
    """The loss of one update with dropout, the gradients, and how often the first block's bottom FFN ran."""
    runs = []
    handle = model.decoder.layers[0].fc3.register_forward_hook(lambda *_: runs.append(1))
    torch.manual_seed(3)
    logits = model(**data)[0]
    target = deltalm_builders.sample()["target"].to(logits.device)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=builders.PAD, reduction="sum")
    loss.backward()
    handle.remove()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return loss.detach(), gradients, len(runs)


def test_checkpointed_activations_change_nothing_but_the_work(device):
    data = builders.to_device(net_input(), device)
    plain, checkpointed = (
        losses(random_model(dropout=0.2, checkpoint_activations=value).double().to(device).train(), data)
        for value in (False, True)
    )
    assert (plain[2], checkpointed[2]) == (1, 2)  # the second time for the backward pass
    torch.testing.assert_close(checkpointed[0], plain[0], rtol=1e-6, atol=1e-6)
    assert [name for name, gradient in plain[1].items() if gradient is None] == []
    for name, gradient in plain[1].items():
        torch.testing.assert_close(checkpointed[1][name], gradient, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("name", NOT_IN_THE_BLOCK)
def test_options_that_the_block_does_not_have_are_refused_by_name(name):
    deltalm_builders.build(**{name: False})
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} is not part"):
        deltalm_builders.build(**{name: True})


@torch.no_grad()
def test_half_precision_is_finite_and_close(device):
    model = random_model().to(device)
    data = builders.to_device(net_input(), device)
    kept = data["prev_output_tokens"].ne(builders.PAD)
    exact = model(**data)[0][kept]
    for dtype in (torch.bfloat16, torch.float16):
        found = model.to(dtype)(**data)[0][kept]
        assert found.dtype == dtype
        assert float((found.float() - exact).abs().max()) < 0.1 * float(exact.abs().max())
        model.float()


def test_every_parameter_is_trained_and_an_update_changes_the_loss(device):
    model = random_model(**dropouts()).to(device).train()
    data = builders.to_device(net_input(), device)
    assert all(parameter.requires_grad for parameter in model.parameters())
    before, gradients, _ = losses(model, data)
    silent = [name for name, gradient in gradients.items() if not bool(gradient.ne(0).any())]
    assert silent == []
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    assert float(losses(model, data)[0]) < float(before)
