"""Test low-rank updates: a unit computes what frozen matrices W + up @ down compute."""

import copy

import pytest
import torch

from fairseq_plugins.masked_lm.prompts import LowRank
from tests import builders

RANK = 2


def merge_updates(model, prompts):
    """Build a model without updates, whose frozen matrices have those of a unit added."""
    masked_lm = copy.deepcopy(model.masked_lm)
    for number, layer in enumerate(masked_lm.sentence_encoder.layers):
        owners = dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj"), layer.self_attn)
        for name, owner in {**owners, "fc1": layer, "fc2": layer}.items():
            down, up = prompts.low_rank.down[name][number], prompts.low_rank.up[name][number]
            getattr(owner, name).weight.data += up @ down
    plain = builders.sga_model(masked_lm)
    state = model.state_dict()
    names = [name for name in state if "low_rank" not in name and "frozen" not in name]
    plain.load_state_dict({name: state[name] for name in names}, strict=False)
    return plain


@pytest.mark.parametrize("unit", ["encoder", "alignment", "denoiser"])
@torch.no_grad()
def test_each_unit_computes_with_its_own_updates(unit):
    model = builders.sga_model(lora_rank=RANK)
    prompts = getattr(model, f"{unit}_prompts")
    plain, source = merge_updates(model, prompts), builders.pad(builders.source_rows([4, 6]))
    guidance, lengths = model.encode(source), torch.tensor([8, 12])
    if unit == "encoder":
        outputs, expected = guidance.prefix, plain.encode(source).prefix
    else:
        generator = torch.Generator().manual_seed(1)
        tokens = torch.randint(4, builders.VOCAB, (2, 12), generator=generator)
        plain_prompts = getattr(plain, f"{unit}_prompts")
        outputs = model.run_unit(tokens, lengths, prompts, guidance)[1]
        expected = plain.run_unit(tokens, lengths, plain_prompts, guidance)[1]
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)


def test_updates_start_at_zero_and_are_trained():
    sizes = builders.masked_lm().sizes
    low_rank = LowRank(sizes.layers, sizes.embed_dim, sizes.ffn_dim, RANK)
    for layer in low_rank():
        assert not any(bool((up @ down).any()) for down, up in layer.values())
    model = builders.sga_model(lora_rank=RANK)
    losses = builders.forward_losses(model, builders.sample())
    sum(loss.sum() for loss in losses.values()).backward()
    updates = [part for name, part in model.named_parameters() if "low_rank" in name]
    assert len(updates) == 3 * 12, "down and up of six matrices per unit"
    assert all(bool(part.grad.any()) for part in updates)
    assert all(parameter.grad is None for parameter in model.frozen.parameters())
