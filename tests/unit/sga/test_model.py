"""SGAModel: which loss trains what, padding, guidance, prompts, slots, precision."""

import argparse

import pytest
import torch

from fairseq_plugins.masked_lm.prompts import Prompts
from fairseq_plugins.sga.config import SGAConfig
from fairseq_plugins.sga.model import SGAModel
from tests import builders
from tests.builders import SOURCES, TARGETS


@pytest.fixture
def model(device):
    return builders.sga_model().double().to(device)


def test_the_exact_list_of_trainable_parameters():
    units = [
        f"{unit}_prompts.{part}"
        for unit in ("encoder", "alignment", "denoiser")
        for part in ("key", "value")
    ]
    semantic = [
        f"semantic.{part}.{kind}" for part in ("key", "value") for kind in ("weight", "bias")
    ]
    scales = [f"{unit}_prompts.scale" for unit in ("encoder", "alignment", "denoiser")]

    def trainable(**options):
        return sorted(
            name for name, p in builders.sga_model(**options).named_parameters() if p.requires_grad
        )

    assert trainable() == sorted(units + semantic)
    assert trainable(prompt_scale=True) == sorted(units + semantic + scales)
    assert trainable(no_denoising=True) == sorted(units[:4] + semantic)


def test_source_and_target_padding_never_matter(model, device):
    """Batch = single, for both losses, whatever the padded width."""
    batches = [builders.forward_losses(model, builders.sample(device, extra)) for extra in (0, 4)]
    for row, (source, target) in enumerate(
        zip(builders.source_rows(SOURCES), builders.target_rows(TARGETS))
    ):
        single = builders.forward_losses(
            model, builders.to_device(builders.batch([source], [target]), device)
        )
        for found in batches:
            for name in ("alignment", "denoising"):
                torch.testing.assert_close(
                    found[name][row], single[name][0], rtol=1e-10, atol=1e-10
                )


@pytest.mark.parametrize("blank", [builders.BOS, builders.PAD, builders.MASK, 9])
def test_any_symbol_may_be_the_blank(blank, device):
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
        assert float((changed[0, 0] - alone[0, 0]).detach().abs().max()) > 1e-6, (
            "a slot with a blank is attended"
        )


def test_noise_is_what_the_denoiser_reads(model, device):
    """corrupt gets T_0 and the slot lengths, then every step's; its result is the denoiser's input, and loss 1 is not touched."""
    sample, seen = builders.sample(device), []

    def corrupt(tokens, lengths):
        seen.append((tokens.clone(), lengths.clone()))
        return torch.full_like(tokens, 11)

    noisy, clean = (
        builders.forward_losses(model, sample, unroll=3, corrupt=noise) for noise in (corrupt, None)
    )
    guidance = model.encode(sample["net_input"]["src_tokens"])
    slots = model.slot_lengths(sample["net_input"]["src_lengths"])
    path = model.best_path(model.align(guidance, slots), slots)
    assert len(seen) == 3 and torch.equal(seen[0][1], slots)
    inside = torch.arange(12, device=device) < slots[:, None]
    assert torch.equal(seen[0][0][inside], path.tokens[inside])
    torch.testing.assert_close(noisy["alignment"], clean["alignment"])
    assert float((noisy["denoising"] - clean["denoising"]).detach().abs().min()) > 1e-3


@pytest.mark.parametrize("alignment", ["ctc", "dag"])
def test_the_bias_of_the_blank_is_one_of_ctc(alignment, device):
    """As a frozen model whose output bias is higher there; a graph of slots, which has no blank, does not see it."""

    def losses(of_model=0.0, **options):
        lm = builders.masked_lm(5)
        lm.lm_head.bias.data[builders.BOS] += of_model
        made = (
            builders.sga_model(lm, alignment=alignment, ctc_upsample=3, **options)
            .double()
            .to(device)
        )
        torch.manual_seed(1)
        return builders.forward_losses(made, builders.sample(device))

    plain, found, raised = losses(), losses(ctc_blank_bias=2.5), losses(2.5)
    expected = (plain if alignment == "dag" else raised)["alignment"]
    torch.testing.assert_close(found["alignment"], expected)
    assert bool((found["denoising"] != plain["denoising"]).any())
    if alignment == "ctc":
        torch.testing.assert_close(found["denoising"], raised["denoising"])
        assert bool((found["alignment"] != plain["alignment"]).any())


@pytest.mark.parametrize("alignment", ["dag", "mask_predict"])
def test_decoding_without_a_blank_ignores_its_bias(alignment):
    def outputs(**options):
        model = builders.sga_model(alignment=alignment, **options)
        generator = builders.task().build_generator(
            [model], argparse.Namespace(iter_decode_max_iter=0)
        )
        found = generator.generate([model], builders.batch(builders.source_rows(SOURCES), None))
        return [sentence[0]["tokens"].tolist() for sentence in found]

    assert outputs(ctc_blank_bias=50.0) == outputs()


def test_prompts_are_xavier_a_layer_and_all_different():
    prompts = Prompts(layers=3, length=128, embed_dim=64, heads=4)
    bound = (6 / (128 + 64)) ** 0.5
    for layer in (*prompts.key.detach(), *prompts.value.detach()):
        assert 0.98 * bound < float(layer.abs().max()) <= bound
    model = SGAModel(builders.frozen(), SGAConfig(prompt_length=3), builders.BOS, builders.MASK)
    units = model.encoder_prompts, model.alignment_prompts, model.denoiser_prompts
    drawn = [layer.detach() for unit in units for part in (unit.key, unit.value) for layer in part]
    assert len({float(layer.sum()) for layer in drawn}) == len(drawn) == 6 * builders.LAYERS


def test_scale_is_learned_from_its_start_at_one():
    """Where max(1, scale) has its edge; values and gradients elsewhere: tests/reference."""
    prompts = Prompts(layers=2, length=3, embed_dim=4, heads=2, scaled=True)
    sum((keys.sum() + values.sum()) for keys, values in prompts()).backward()
    torch.testing.assert_close(
        prompts.scale.grad, (prompts.key.sum() + prompts.value.sum()).detach()[None]
    )


def test_positions_count_slots_and_not_tokens(device):
    """A blank <pad> takes a position like any other slot; padding has the padding position."""
    model, seen = builders.sga_model(blank=builders.PAD).to(device), []
    tokens = torch.tensor(
        [[5, builders.PAD, builders.PAD, 6], [builders.PAD, 7, 5, 5]], device=device
    )
    guidance = model.encode(builders.pad(builders.source_rows([4, 3])).to(device))
    hook = lambda module, args, kwargs: seen.append(kwargs["positions"].tolist())  # noqa: E731
    model.masked_lm.sentence_encoder.register_forward_pre_hook(hook, with_kwargs=True)
    model.denoise(tokens, guidance, torch.tensor([4, 2], device=device))
    assert seen == [[[2, 3, 4, 5], [2, 3, builders.PAD, builders.PAD]]]
