"""Test SGAModel: trained parameters, blanks, noise, prompts, positions."""

import argparse

import pytest
import torch

from fairseq_plugins.masked_lm.prompts import Prompts
from fairseq_plugins.sga.config import SGAConfig
from fairseq_plugins.sga.model import SGAModel
from tests import builders
from tests.builders import SOURCES


@pytest.fixture
def model(device):
    return builders.sga_model().double().to(device)


def test_the_exact_list_of_trainable_parameters():
    units = ("encoder_prompts", "alignment_prompts", "denoiser_prompts")
    prompts = [f"{unit}.{part}" for unit in units for part in ("key", "value")]
    scales = [f"{unit}.scale" for unit in units]
    parts = ("key.weight", "key.bias", "value.weight", "value.bias")
    semantic = [f"semantic.{part}" for part in parts]

    def trainable(**options):
        parameters = builders.sga_model(**options).named_parameters()
        return sorted(name for name, parameter in parameters if parameter.requires_grad)

    assert trainable() == sorted(prompts + semantic)
    assert trainable(prompt_scale=True) == sorted(prompts + semantic + scales)
    assert trainable(no_denoising=True) == sorted(prompts[:4] + semantic)


@pytest.mark.parametrize("blank", [builders.BOS, builders.PAD, builders.MASK, 9])
def test_any_symbol_may_be_the_blank(blank, device):
    """A blank <pad> is a slot and no padding: it is attended, and batch = single."""
    model = builders.sga_model(blank=blank).double().to(device)
    sources = builders.source_rows(SOURCES)
    inputs = builders.to_device(builders.batch(sources), device)["net_input"]
    slots = model.slot_lengths(inputs["src_lengths"])
    tokens = torch.randint(4, 29, (3, 12), device=device)
    tokens[:, 1::3] = blank
    tokens[:, 2::4] = blank
    batch = model.denoise(tokens, model.encode(inputs["src_tokens"]), slots)
    for row, source in enumerate(sources):
        guidance = model.encode(source[None].to(device))

        def denoise(row_tokens, row=row, guidance=guidance):
            return model.denoise(row_tokens, guidance, slots[row : row + 1])[0]

        row_tokens = tokens[row : row + 1, : int(slots[row])]
        single = denoise(row_tokens)
        torch.testing.assert_close(batch[row, : len(single)], single, rtol=1e-10, atol=1e-10)
        changed_tokens = row_tokens.clone()
        changed_tokens[0, 1] = blank - 1 if blank else 5
        change = denoise(changed_tokens)[0] - single[0]
        assert float(change.detach().abs().max()) > 1e-6, "a slot with a blank is attended"


def test_the_denoiser_reads_noisy_tokens_in_every_step(model, device):
    """The first noise gets T_0 and the slot lengths; the alignment loss does not change."""
    sample, calls = builders.sample(device), []

    def corrupt(tokens, lengths):
        calls.append((tokens.clone(), lengths.clone()))
        return torch.full_like(tokens, 11)

    noisy = builders.forward_losses(model, sample, unroll=3, corrupt=corrupt)
    clean = builders.forward_losses(model, sample, unroll=3)
    guidance = model.encode(sample["net_input"]["src_tokens"])
    slots = model.slot_lengths(sample["net_input"]["src_lengths"])
    path = model.best_path(model.align(guidance, slots), slots)
    assert len(calls) == 3
    tokens, lengths = calls[0]
    assert torch.equal(lengths, slots)
    inside = torch.arange(12, device=device) < slots[:, None]
    assert torch.equal(tokens[inside], path.tokens[inside])
    torch.testing.assert_close(noisy["alignment"], clean["alignment"])
    assert float((noisy["denoising"] - clean["denoising"]).detach().abs().min()) > 1e-3


@pytest.mark.parametrize("alignment", ["ctc", "dag"])
def test_the_blank_bias_acts_on_ctc_alone(alignment, device):
    """It equals a higher output bias of the frozen model; a graph of slots has no blank."""

    def compute_losses(output_bias=0.0, **options):
        masked_lm = builders.masked_lm(5)
        masked_lm.lm_head.bias.data[builders.BOS] += output_bias
        options = {"alignment": alignment, "ctc_upsample": 3, **options}
        model = builders.sga_model(masked_lm, **options).double().to(device)
        torch.manual_seed(1)
        return builders.forward_losses(model, builders.sample(device))

    plain, biased = compute_losses(), compute_losses(ctc_blank_bias=2.5)
    assert bool((biased["denoising"] != plain["denoising"]).any())
    if alignment == "dag":
        torch.testing.assert_close(biased["alignment"], plain["alignment"])
    else:
        torch.testing.assert_close(biased, compute_losses(2.5))
        assert bool((biased["alignment"] != plain["alignment"]).any())


@pytest.mark.parametrize("alignment", ["dag", "mask_predict"])
def test_decoding_without_a_blank_ignores_its_bias(alignment):
    def outputs(**options):
        model = builders.sga_model(alignment=alignment, **options)
        generator = builders.task().build_generator(
            [model], argparse.Namespace(iter_decode_max_iter=0)
        )
        sentences = generator.generate([model], builders.batch(builders.source_rows(SOURCES)))
        return [sentence[0]["tokens"].tolist() for sentence in sentences]

    assert outputs(ctc_blank_bias=50.0) == outputs()


def test_prompts_start_xavier_uniform_per_layer_and_all_different():
    prompts = Prompts(layers=3, length=128, embed_dim=64, heads=4)
    bound = (6 / (128 + 64)) ** 0.5
    for layer in (*prompts.key.detach(), *prompts.value.detach()):
        assert 0.98 * bound < float(layer.abs().max()) <= bound
    model = SGAModel(builders.frozen(), SGAConfig(prompt_length=3), builders.BOS, builders.MASK)
    sums = []
    for unit in (model.encoder_prompts, model.alignment_prompts, model.denoiser_prompts):
        sums += [float(layer.detach().sum()) for layer in (*unit.key, *unit.value)]
    assert len(set(sums)) == len(sums) == 6 * builders.LAYERS


def test_the_scale_is_learned_from_its_start_at_one():
    """The edge of max(1, scale) has a gradient; tests/reference has the other values."""
    prompts = Prompts(layers=2, length=3, embed_dim=4, heads=2, scaled=True)
    sum((keys.sum() + values.sum()) for keys, values in prompts()).backward()
    expected = (prompts.key.sum() + prompts.value.sum()).detach()[None]
    torch.testing.assert_close(prompts.scale.grad, expected)


def test_positions_count_slots_and_not_tokens(device):
    """A blank <pad> takes a position like any other slot; padding has the padding position."""
    model, calls, pad = builders.sga_model(blank=builders.PAD).to(device), [], builders.PAD
    tokens = torch.tensor([[5, pad, pad, 6], [pad, 7, 5, 5]], device=device)
    guidance = model.encode(builders.pad(builders.source_rows([4, 3])).to(device))

    def record(module, args, kwargs):
        calls.append(kwargs["positions"].tolist())

    model.masked_lm.sentence_encoder.register_forward_pre_hook(record, with_kwargs=True)
    model.denoise(tokens, guidance, torch.tensor([4, 2], device=device))
    assert calls == [[[2, 3, 4, 5], [2, 3, pad, pad]]]
