"""Low-rank updates: every unit of SGA computes what the frozen model with W + up down in its place computes."""

import copy

import pytest
import torch

from fairseq_plugins.masked_lm.prompts import LowRank
from tests import builders

RANK = 2


def merged(model, prompts):
    """A model whose frozen matrices have the updates of a unit added one by one, without updates."""
    masked_lm = copy.deepcopy(model.masked_lm)
    for number, layer in enumerate(masked_lm.sentence_encoder.layers):
        owners = dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj"), layer.self_attn)
        for name, owner in {**owners, "fc1": layer, "fc2": layer}.items():
            down, up = prompts.low_rank.down[name][number], prompts.low_rank.up[name][number]
            getattr(owner, name).weight.data += up @ down
    plain = builders.sga_model(masked_lm)
    state = {key: value for key, value in model.state_dict().items() if "low_rank" not in key and "frozen" not in key}
    plain.load_state_dict(state, strict=False)
    return plain


@pytest.mark.parametrize("unit", ["encoder", "alignment", "denoiser"])
@torch.no_grad()
def test_each_unit_has_the_matrices_plus_its_own_updates(unit):
    model = builders.sga_model(lora_rank=RANK)
    prompts = getattr(model, f"{unit}_prompts")
    plain, source = merged(model, prompts), builders.pad(builders.source_rows([4, 6]))
    guidance, lengths = model.encode(source), torch.tensor([8, 12])
    if unit == "encoder":
        ours, theirs = guidance.prefix, plain.encode(source).prefix
    else:
        tokens = torch.randint(4, builders.VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))
        ours = model.run_unit(tokens, lengths, prompts, guidance)[1]
        theirs = plain.run_unit(tokens, lengths, getattr(plain, f"{unit}_prompts"), guidance)[1]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_updates_start_at_nothing_and_are_trained():
    sizes = builders.masked_lm().sizes
    low_rank = LowRank(sizes.layers, sizes.embed_dim, sizes.ffn_dim, RANK)
    assert all(not bool((up @ down).any()) for layer in low_rank() for down, up in layer.values())
    model = builders.sga_model(lora_rank=RANK)
    losses = builders.forward_losses(model, builders.sample("cpu"))
    sum(loss.sum() for loss in losses.values()).backward()
    parts = [name for name, part in model.named_parameters() if "low_rank" in name and bool(part.grad.any())]
    assert len(parts) == 3 * 12, "down and up of six matrices per unit"
    assert not any(parameter.grad is not None for parameter in model.frozen.parameters())
