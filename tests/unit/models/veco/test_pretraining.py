"""Pre-training: what is tied, who sees what, what gets a gradient, and what moves while the backbone is frozen."""

import pytest
import torch

from fairseq_plugins.criterions.cross_sequence_mlm import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

CLOSE = dict(rtol=0, atol=1e-5)


@pytest.fixture
def model(device):
    return veco_builders.random_pretrainer().to(device)


def batch(device, **options):
    return builders.to_device(veco_builders.batch(**options), device)


def loss_of(model, sample, **options):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig(**options))(model, sample)


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
    assert {name for name in names if name.startswith("decoder.")} == {
        name for name in state if name.startswith("decoder.") and is_cross_attention(name)
    }
    assert model.encoder.embed_scale == model.decoder.embed_scale == 1.0
    assert model.max_positions() == builders.POSITIONS


def test_weights_start_as_berts():
    model = veco_builders.pretrainer(encoder_embed_dim=64, decoder_embed_dim=64)
    for name, tensor in model.named_parameters():
        if tensor.dim() == 2:
            assert 0.015 < float(tensor.detach().std()) < 0.025, name
    assert not bool(model.encoder.embed_tokens.weight[builders.PAD].any())
    assert not bool(model.lm_head.bias.any())


def predictions(model, sample, name):
    """(2B, S, V) logits of an objective, 0 where nothing is predicted."""
    with torch.no_grad():
        logits = model(**sample["net_input"], objectives=(name[:2] if name != "tlm" else "tlm",))[name]
    masked = sample["net_input"]["masked"]
    result = logits.new_zeros(*masked.shape, logits.size(-1))
    result[masked] = logits
    return result


def everywhere(sample):
    sample["net_input"]["masked"] = sample["net_input"]["src_tokens"].ne(builders.PAD)
    return sample


@pytest.mark.parametrize("place", [1, 3])
def test_cs_mlm_sees_its_position_and_those_before_it(model, device, place):
    one, other = (everywhere(batch(device)) for _ in range(2))
    row = 3
    token = int(other["net_input"]["src_tokens"][row, place])
    other["net_input"]["src_tokens"][row, place] = builders.FIRST_PIECE + (token - builders.FIRST_PIECE + 1) % 20
    left, right = (predictions(model, sample, "cs_mlm")[row] for sample in (one, other))
    changed = (left - right).abs().amax(dim=-1) > 1e-4
    assert not bool(changed[:place].any())
    assert bool(changed[place]) and bool(changed[place + 1 : 7].all())
    seen = predictions(model, one, "is_mlm")[row] - predictions(model, other, "is_mlm")[row]
    assert bool((seen.abs().amax(dim=-1)[:7] > 1e-4).all())  # the encoder sees all of it


@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_cs_mlm_attends_to_the_other_segment_of_the_same_text(model, device, row):
    one, other = (everywhere(batch(device)) for _ in range(2))
    other["net_input"]["src_tokens"][row, 1] = 6 if int(one["net_input"]["src_tokens"][row, 1]) != 6 else 7
    changed = (predictions(model, one, "cs_mlm") - predictions(model, other, "cs_mlm")).abs().amax(dim=(1, 2)) > 1e-4
    assert changed.nonzero()[:, 0].tolist() == sorted([row, (row + 2) % 4])


def test_padding_changes_nothing(model, device):
    """Neither of the rows themselves, nor of the segment attended to, nor of the joined rows."""
    whole = loss_of(model, batch(device))[2]
    padded = loss_of(model, batch(device, extra=3))[2]
    for name in ("is_mlm", "cs_mlm", "tlm"):
        torch.testing.assert_close(padded[name], whole[name], rtol=1e-5, atol=0)
    rows = veco_builders.pair_rows()
    alone = [loss_of(model, _pair(device, rows, number))[2] for number in (0, 1)]
    for name in ("is_mlm", "cs_mlm"):
        torch.testing.assert_close(alone[0][name] + alone[1][name], whole[name], rtol=1e-5, atol=0)


def _pair(device, rows, number):
    """One text of the batch alone, with the masks and inputs that it has there."""
    sample = batch(device, parallel=False)
    places = [number, number + 2]
    width = max(len(rows[place]) for place in places)
    inputs = sample["net_input"]
    for name in ("src_tokens", "masked"):
        inputs[name] = inputs[name][places, :width]
    inputs["src_lengths"] = inputs["src_lengths"][places]
    sample["target"] = sample["target"][places, :width]
    return sample


def test_no_gradient_of_cs_mlm_reaches_the_memory(model, device):
    """The states that the encoder made get none from CS-MLM; from IS-MLM they get one."""
    sample = batch(device, parallel=False)
    kept = []
    stock = model.encoder.forward

    def watched(*args, **kwargs):
        found = stock(*args, **kwargs)
        found["encoder_out"][0].retain_grad()
        kept.append(found["encoder_out"][0])
        return found

    model.encoder.forward = watched
    for objectives, reached in (("cs", False), ("is", True), ("is,cs", True)):
        kept.clear()
        loss_of(model, sample, objectives=objectives)[0].backward()
        assert len(kept) == 1
        assert (kept[0].grad is not None and bool(kept[0].grad.any())) == reached


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
    moved = step(model, sample, optimizer)
    assert {name for name, found in moved.items() if found} == {name for name in moved if is_cross_attention(name)}
    assert len(moved) > sum(moved.values()) > 10
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
    found = []
    for checkpointed in (False, True):
        model = veco_builders.random_pretrainer(checkpoint_activations=checkpointed).to(device).train()
        model.freeze_backbone(True)
        torch.manual_seed(1)  # dropout
        loss_of(model, batch(device))[0].backward()
        found.append({name: one.grad for name, one in model.named_parameters() if one.grad is not None})
    plain, again = found
    assert set(plain) == set(again) and all(is_cross_attention(name) for name in plain) and plain
    assert all(
        torch.equal(again[name], grad) and bool(grad.any()) for name, grad in plain.items() if "k_proj.bias" not in name
    )


def test_only_what_is_needed_runs(model, device):
    """One encoder call for both segments, one for the joined rows, one decoder call; each only when asked for."""
    calls = []
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


def test_only_masked_positions_are_projected(model, device):
    sample = batch(device)
    rows = {}
    model(**sample["net_input"], reduce=lambda counts, hidden, *_: rows.update(counts, all=len(hidden)))
    count = int(sample["net_input"]["masked"].sum())
    pairs = int(sample["net_input"]["joint_masked"].sum())
    assert rows == {"is_mlm": count, "cs_mlm": count, "tlm": pairs, "all": 2 * count + pairs}
