"""SGAModel: which loss trains what, padding, guidance, prompts, slots, precision."""

import argparse
from typing import Any, Dict, List, Tuple

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.models.sga.guidance import SemanticProjection
from fairseq_plugins.modules.prompts import Prompts
from fairseq_plugins.ops import linear as products
from tests import builders

SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


@pytest.fixture
def model(device: torch.device) -> SGAModel:
    """Three units, float64."""
    return builders.sga_model().double().to(device)


def _sample(device: torch.device, extra: int = 0) -> Dict[str, Any]:
    rows = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    return builders.to_device(builders.batch(*rows, extra=extra), device)


def _gradients(model: SGAModel, loss: Tensor) -> Dict[str, Tensor]:
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(trained.items(), found)}


def test_the_exact_list_of_trainable_parameters() -> None:
    units = [f"{unit}_prompts.{part}" for unit in ("encoder", "alignment", "denoiser") for part in ("key", "value")]
    semantic = [f"semantic.{part}.{kind}" for part in ("key", "value") for kind in ("weight", "bias")]
    scales = [f"{unit}_prompts.scale" for unit in ("encoder", "alignment", "denoiser")]

    def trainable(**options: Any) -> List[str]:
        return sorted(name for name, p in builders.sga_model(**options).named_parameters() if p.requires_grad)

    assert trainable() == sorted(units + semantic)
    assert trainable(prompt_scale=True) == sorted(units + semantic + scales)
    assert trainable(no_denoising=True) == sorted(units[:4] + semantic)


def test_alignment_loss_trains_encoder_prompts_guidance_and_alignment_prompts(model: SGAModel, device: Any) -> None:
    """L1(theta_s, theta_a): nothing for the denoiser."""
    gradients = _gradients(model, builders.forward_losses(model, _sample(device))["alignment"].sum())
    for name, gradient in gradients.items():
        assert bool((gradient != 0).any()) != name.startswith("denoiser_prompts"), name


def test_denoising_loss_trains_encoder_prompts_guidance_and_denoiser_prompts(model: SGAModel, device: Any) -> None:
    """L2(theta_s, theta_d): the argmax is detached, so theta_a gets exactly nothing while theta_s is still trained."""
    for unroll in (1, 2):
        losses = builders.forward_losses(model, _sample(device), unroll=unroll)
        gradients = _gradients(model, losses["denoising"].sum())
        for name, gradient in gradients.items():
            assert bool((gradient != 0).any()) != name.startswith("alignment_prompts"), name


@pytest.mark.parametrize("part", ["alignment", "denoising"])
def test_every_layer_and_every_prompt_is_trained(model: SGAModel, part: str, device: Any) -> None:
    """A layer index that is off by one leaves a layer's prompts without gradient."""
    gradients = _gradients(model, builders.forward_losses(model, _sample(device))[part].sum())
    unit = {"alignment": "alignment_prompts", "denoising": "denoiser_prompts"}[part]
    for name in (f"{unit}.key", f"{unit}.value", "encoder_prompts.key", "encoder_prompts.value"):
        assert bool((gradients[name].abs().sum(dim=2) > 0).all()), name


def test_source_and_target_padding_never_matter(model: SGAModel, device: torch.device) -> None:
    """Batch = single, for both losses, whatever the padded width."""
    together = builders.forward_losses(model, _sample(device))
    wider = builders.forward_losses(model, _sample(device, extra=4))
    rows = list(zip(builders.source_rows(SOURCES), builders.target_rows(TARGETS)))
    for row, (source, target) in enumerate(rows):
        single = builders.forward_losses(model, builders.to_device(builders.batch([source], [target]), device))
        for name in ("alignment", "denoising"):
            torch.testing.assert_close(together[name][row], single[name][0], rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(wider[name][row], single[name][0], rtol=1e-10, atol=1e-10)


def test_slots_follow_each_sentence_and_not_the_batch(model: SGAModel, device: torch.device) -> None:
    lengths = torch.tensor(SOURCES, device=device)
    assert model.slot_lengths(lengths).tolist() == [12, 6, 10]
    assert builders.sga_model(ctc_upsample=3).slot_lengths(torch.tensor(SOURCES)).tolist() == [18, 9, 15]


def test_alignment_reads_a_row_of_masks(model: SGAModel, device: torch.device) -> None:
    """Y_blank of Eq. 4, with as many <mask> as slots."""
    slots = model.slot_lengths(torch.tensor(SOURCES, device=device))
    blank = model.blank_sentence(slots)
    assert blank.shape == (3, 12)
    assert all(bool((row[:length] == builders.MASK).all()) for row, length in zip(blank, slots.tolist()))


def _recorded_prefix(model: SGAModel, unit: str, device: torch.device) -> Tuple[Any, Dict[str, Any], Any]:
    """What the masked LM gets as prefix when a unit runs, and the guidance."""
    sample = _sample(device)["net_input"]
    guidance = model.encode(sample["src_tokens"])
    slots = model.slot_lengths(sample["src_lengths"])
    calls: List[Dict[str, Any]] = []
    encoder = model.masked_lm.sentence_encoder
    handle = encoder.register_forward_pre_hook(lambda _, args, kwargs: calls.append(kwargs), with_kwargs=True)
    if unit == "alignment":
        model.align(guidance, slots)
    else:
        model.denoise(model.blank_sentence(slots) * 0 + 7, guidance, slots)
    handle.remove()
    assert len(calls) == 1
    return guidance, calls[0], getattr(model, f"{unit}_prompts")


@pytest.mark.parametrize("unit", ["alignment", "denoiser"])
def test_prefix_is_semantic_then_prompt_and_source_padding_is_masked(
    model: SGAModel, unit: str, device: torch.device
) -> None:
    """Eq. 3 and 5: concat[semantic, prompt], in every layer its own pair."""
    guidance, call, prompts = _recorded_prefix(model, unit, device)
    sources, length = max(SOURCES), prompts.key.size(1)
    mask = call["prefix_padding_mask"]
    expected = torch.arange(sources, device=device) >= torch.tensor(SOURCES, device=device)[:, None]
    assert torch.equal(mask[:, :sources], expected)
    assert mask.shape == (3, sources + length)
    assert not bool(mask[:, sources:].any())
    assert len(call["prefix"]) == builders.LAYERS
    for layer, (keys, values) in enumerate(call["prefix"]):
        for found, semantic, prompt in (
            (keys, guidance.prefix[layer][0], prompts.key[layer]),
            (values, guidance.prefix[layer][1], prompts.value[layer]),
        ):
            assert torch.equal(found[:, :, :sources], semantic)
            for row in range(3):
                assert torch.equal(found[row, :, sources:].transpose(0, 1).flatten(1), prompt)


def test_guidance_of_layer_l_is_h_l_projected_by_one_pair(model: SGAModel, device: torch.device) -> None:
    """Eq. 2: K^l = h^l W_K, V^l = h^l W_V, with h^l the *output* of layer l."""
    tokens = _sample(device)["net_input"]["src_tokens"]
    layers = model.masked_lm.sentence_encoder(tokens, prefix=model.encoder_prompts())
    guidance = model.encode(tokens)
    assert torch.equal(guidance.padding_mask, tokens == builders.PAD)
    assert len(guidance.prefix) == len(layers) == builders.LAYERS
    for hidden, pair in zip(layers, guidance.prefix):
        for linear, found in zip((model.semantic.key, model.semantic.value), pair):
            torch.testing.assert_close(found.transpose(1, 2).flatten(2), hidden @ linear.weight.T + linear.bias)


def test_guidance_keeps_some_sentences(model: SGAModel, device: torch.device) -> None:
    guidance = model.encode(_sample(device)["net_input"]["src_tokens"])
    kept = guidance.select(torch.tensor([2, 0], device=device))
    assert torch.equal(kept.padding_mask, guidance.padding_mask[[2, 0]])
    for few, many in zip(kept.prefix, guidance.prefix):
        for ours, theirs in zip(few, many):
            assert torch.equal(ours, theirs[[2, 0]])


@pytest.mark.parametrize("blank", [builders.BOS, builders.PAD, builders.MASK, 9])
def test_any_symbol_may_be_the_blank(blank: int, device: torch.device) -> None:
    """Also <pad>, which the denoiser then reads as a slot and not as padding: batch = single."""
    model = builders.sga_model(blank=blank).double().to(device)
    sources = builders.source_rows(SOURCES)
    sample = builders.to_device(builders.batch(sources), device)["net_input"]
    slots = model.slot_lengths(sample["src_lengths"])
    tokens = torch.randint(4, 29, (3, 12), device=device)
    tokens[:, 1::3] = blank
    tokens[:, 2::4] = blank

    together = model.denoise(tokens, model.encode(sample["src_tokens"]), slots)
    for row, source in enumerate(sources):
        length = int(slots[row])
        guidance = model.encode(source[None].to(device))
        alone = model.denoise(tokens[row : row + 1, :length], guidance, slots[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=1e-10, atol=1e-10)
        other = tokens[row : row + 1, :length].clone()
        other[0, 1] = blank - 1 if blank else 5
        changed = model.denoise(other, guidance, slots[row : row + 1])
        assert float((changed[0, 0] - alone[0, 0]).detach().abs().max()) > 1e-6, "a slot with a blank is attended"


def test_positions_count_slots_and_not_tokens(device: torch.device) -> None:
    """A blank <pad> takes a position like any other slot; padding has the padding position."""
    model = builders.sga_model(blank=builders.PAD).to(device)
    tokens = torch.tensor([[5, builders.PAD, builders.PAD, 6], [builders.PAD, 7, 5, 5]], device=device)
    positions = model._slot_positions(tokens, torch.tensor([4, 2], device=device))
    assert positions.tolist() == [[2, 3, 4, 5], [2, 3, builders.PAD, builders.PAD]]
    seen: List[Tensor] = []
    encoder = model.masked_lm.sentence_encoder
    encoder.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs.get("positions")), with_kwargs=True
    )
    sample = builders.to_device(builders.batch(builders.source_rows([4, 3])), device)["net_input"]
    guidance = model.encode(sample["src_tokens"])
    seen.clear()
    lengths = torch.tensor([4, 2], device=device)
    model.denoise(tokens, guidance, lengths)
    assert [part.tolist() for part in seen] == [positions.tolist()]


def test_noise_is_what_the_denoiser_reads(model: SGAModel, device: torch.device) -> None:
    """corrupt gets T_0 and the slot lengths; its result is the denoiser's input, and loss 1 is not touched."""
    sample, seen = _sample(device), []

    def corrupt(tokens: Tensor, lengths: Tensor) -> Tensor:
        seen.append((tokens.clone(), lengths.clone()))
        return torch.full_like(tokens, 11)

    noisy, clean = builders.forward_losses(model, sample, corrupt=corrupt), builders.forward_losses(model, sample)
    assert len(seen) == 1
    guidance = model.encode(sample["net_input"]["src_tokens"])
    slots = model.slot_lengths(sample["net_input"]["src_lengths"])
    path = model.best_path(model.align(guidance, slots), slots)
    assert torch.equal(seen[0][1], slots)
    inside = torch.arange(12, device=device) < slots[:, None]
    assert torch.equal(seen[0][0][inside], path.tokens[inside])
    torch.testing.assert_close(noisy["alignment"], clean["alignment"])
    assert float((noisy["denoising"] - clean["denoising"]).detach().abs().min()) > 1e-3
    builders.forward_losses(model, sample, corrupt=corrupt, unroll=3)
    assert len(seen) == 4, "noise is drawn for every denoising step"


def test_without_denoising_there_is_one_loss_and_no_third_unit(device: torch.device) -> None:
    model = builders.sga_model(no_denoising=True).double().to(device)
    full = builders.sga_model().double().to(device)
    assert not model.has_denoiser
    assert full.has_denoiser
    losses = builders.forward_losses(model, _sample(device))
    assert set(losses) == {"alignment"}
    assert not any(name.startswith("denoiser") for name, _ in model.named_parameters())


def test_max_positions_leaves_room_for_the_slots() -> None:
    for upsample in (1, 2, 3):
        model = builders.sga_model(ctc_upsample=upsample)
        longest, _ = model.max_positions()
        assert longest == builders.POSITIONS // upsample
        source = builders.source_rows([longest])
        losses = builders.forward_losses(model, builders.batch(source, builders.target_rows([2])))
        assert bool(losses["denoising"].isfinite().all())


def test_bfloat16_is_close_and_the_loss_is_float32(device: torch.device) -> None:
    sample = _sample(device)
    exact = builders.forward_losses(builders.sga_model().to(device), sample)
    half = builders.forward_losses(builders.sga_model().to(device, torch.bfloat16), sample)
    for loss in half.values():
        assert loss.dtype == torch.float32
        assert bool(loss.isfinite().all())
    torch.testing.assert_close(half["alignment"], exact["alignment"], rtol=0.1, atol=0.5)
    sum(loss.sum() for loss in half.values()).backward()


# ---- Prompts. ----


def test_prompts_are_xavier_a_layer_and_all_different() -> None:
    prompts = Prompts(layers=3, length=128, embed_dim=64, heads=4)
    bound = (6 / (128 + 64)) ** 0.5
    for tensor in (prompts.key, prompts.value):
        assert tensor.shape == (3, 128, 64)
        for layer in tensor:
            assert 0.98 * bound < float(layer.detach().abs().max()) <= bound
            assert abs(float(layer.detach().std()) - bound / 3**0.5) < 0.01 * bound
        assert not torch.equal(tensor[0], tensor[1])
    assert not torch.equal(prompts.key, prompts.value)
    model = builders.SGAModel(builders.frozen(), builders.SGAConfig(prompt_length=3), builders.BOS, builders.MASK)
    units = [model.encoder_prompts, model.alignment_prompts, model.denoiser_prompts]
    assert not any(torch.equal(a.key, b.key) for a in units for b in units if a is not b)


def test_prompts_are_split_into_heads() -> None:
    prompts = Prompts(layers=2, length=3, embed_dim=4, heads=2)
    keys, values = prompts()[1]
    assert keys.shape == values.shape == (1, 2, 3, 2)
    assert torch.equal(keys[0, 1], prompts.key[1, :, 2:])
    assert torch.equal(values[0, 0], prompts.value[1, :, :2])


@pytest.mark.parametrize(("scale", "factor"), [(0.3, 1.0), (-2.0, 1.0), (1.0, 1.0), (2.5, 2.5)])
def test_scale_is_at_least_one(scale: float, factor: float) -> None:
    """max(1, scale), one scalar a unit."""
    prompts = Prompts(layers=2, length=3, embed_dim=4, heads=2, scaled=True)
    assert prompts.scale.tolist() == [1.0]
    plain = prompts()
    prompts.scale.data.fill_(scale)
    for before, after in zip(plain, prompts()):
        for ours, theirs in zip(after, before):
            torch.testing.assert_close(ours, factor * theirs)


def test_scale_is_learned_from_the_start() -> None:
    """The gradient at the initial value 1 is that of the product, not zero."""
    prompts = Prompts(layers=1, length=3, embed_dim=4, heads=2, scaled=True)
    sum((keys.sum() + values.sum()) for keys, values in prompts()).backward()
    torch.testing.assert_close(prompts.scale.grad, (prompts.key.sum() + prompts.value.sum()).detach()[None])


def test_semantic_projection_shapes(device: torch.device) -> None:
    projection = SemanticProjection(embed_dim=6, heads=3).to(device)
    keys, values = projection(torch.randn(2, 5, 6, device=device))
    assert keys.shape == values.shape == (2, 3, 5, 2)
    assert not torch.equal(projection.key.weight, projection.value.weight)


def test_checkpoints_from_before_mask_predict_do_not_name_the_alignment() -> None:
    cfg = OmegaConf.structured(builders.SGAConfig(prompt_length=3))
    plain = {key: value for key, value in OmegaConf.to_container(cfg).items() if key != "alignment"}
    old = OmegaConf.create(plain)
    OmegaConf.set_struct(old, True)
    model = builders.SGAModel(builders.frozen(), old, builders.BOS, builders.MASK)
    assert (model.alignment, model.length_predictor) == ("ctc", None)


@pytest.mark.skipif(not products._PACKABLE, reason="torch without oneDNN's linear")
@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_packed_weights_decode_alike(alignment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix of the frozen model, the guidance and the tied table, of which nothing is left out; the outputs are the same."""
    monkeypatch.setattr(products, "MIN_WEIGHTS", 1)
    model, task = builders.sga_model(alignment=alignment), builders.task()
    sample = builders.batch(builders.source_rows(SOURCES), None)
    hidden = torch.randn(2, 5, model.masked_lm.sizes.embed_dim)

    def outputs() -> Any:
        generator = task.build_generator([model], argparse.Namespace(iter_decode_max_iter=2))
        tokens = [sentence[0]["tokens"].tolist() for sentence in generator.generate([model], sample)]
        return tokens, model.best_path(hidden, torch.tensor([5, 3])).log_probs

    plain = outputs()
    matrices = [p for part in (model.masked_lm, model.semantic) for n, p in part.named_parameters() if p.dim() == 2]
    positions = model.masked_lm.sentence_encoder.embed_positions.weight
    assert model.pack_weights() == sum(4 * p.numel() for p in matrices if p is not positions)
    assert model.pack_weights() == 0
    are_packed = spied_products(monkeypatch)
    packed = outputs()
    assert packed[0] == plain[0]
    torch.testing.assert_close(packed[1], plain[1])
    assert are_packed and all(are_packed)


def spied_products(monkeypatch: pytest.MonkeyPatch) -> List[bool]:
    """Of each of oneDNN's products to come, whether its weight was packed."""
    found: List[bool] = []
    product = torch.ops.mkldnn._linear_pointwise

    class Operators:
        @staticmethod
        def _linear_pointwise(x: Tensor, weight: Tensor, *others: Any) -> Tensor:
            found.append(weight.is_mkldnn)
            return product(x, weight, *others)

    monkeypatch.setattr(torch.ops, "mkldnn", Operators)
    return found
