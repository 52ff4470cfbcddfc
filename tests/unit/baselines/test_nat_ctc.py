"""Test nat_ctc: no triangular mask, padding invariance, the loss, options, architectures."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.baselines.nat_ctc import NATCTCConfig, NATCTCModel
from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion
from tests import builders
from tests.builders import SOURCES, TARGETS

SIZES = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "embed_dim": 16,
    "ffn_embed_dim": 24,
    "attention_heads": 2,
}


def build(**changes):
    model = NATCTCModel.build_model(NATCTCConfig(**{**SIZES, **changes}), builders.task())
    builders.randomise(model, seed=5)
    return model.eval()


@pytest.fixture
def model(device):
    return build().double().to(device)


def slot_states(model, net_input):
    lengths = model.slot_lengths(net_input["src_lengths"])
    return model.align(model.encode(net_input["src_tokens"]), lengths)


def test_a_batch_gives_what_each_sentence_gives_alone(model, device):
    together = slot_states(model, builders.sample(device, extra=3)["net_input"])
    for row, source in enumerate(builders.source_rows(SOURCES)):
        sample = builders.to_device(builders.batch([source]), device)
        alone = slot_states(model, sample["net_input"])
        # fairseq's attention takes its softmax in float32, whatever the dtype of the model
        torch.testing.assert_close(together[row, : 2 * len(source)], alone[0], rtol=1e-5, atol=1e-5)


def test_the_decoder_is_not_triangular(model, device):
    """Without cross-attention the first slot still depends on the last one."""
    for layer in model.decoder.layers:
        layer.encoder_attn.out_proj.weight.data.zero_()
        layer.encoder_attn.out_proj.bias.data.zero_()
    encoder_out = model.encode(builders.sample(device)["net_input"]["src_tokens"][:1])
    lengths = torch.tensor([12], device=device)
    before = model.align(encoder_out, lengths)
    encoder_out["encoder_out"][0][-1] += 1.0
    assert (model.align(encoder_out, lengths) - before)[0, 0].abs().max() > 1e-6


def test_criterion_gives_ctc_of_the_materialised_logits(model, device):
    data = builders.sample(device, extra=1)
    criterion = SGACTCCriterion(builders.task(), SGACTCConfig(sentence_avg=False))
    loss, size, logs = criterion(model, data)
    states = slot_states(model, data["net_input"])
    log_probs = F.linear(states, model.encoder.embed_tokens.weight).log_softmax(-1).transpose(0, 1)
    lengths = 2 * data["net_input"]["src_lengths"], torch.tensor(TARGETS, device=device)
    expected = F.ctc_loss(log_probs, data["target"], *lengths, builders.BOS, "sum")
    torch.testing.assert_close(loss, expected)
    assert size == sum(TARGETS) and "denoising_loss" not in logs
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_options_change_the_model():
    assert build(ctc_upsample=3).slot_lengths(torch.tensor([4])).tolist() == [12]
    assert build(ctc_blank="<mask>").blank == builders.MASK
    assert build(max_source_positions=7, ctc_upsample=3).max_positions() == (7, 21)


@pytest.mark.cases(
    "change message",
    ({"ctc_upsample": 0}, "--ctc-upsample .* got 0"),
    ({"decoder_layers": 0}, "--decoder-layers .* got 0"),
    ({"dropout": 1.0}, "--dropout .* got 1.0"),
    ({"attention_heads": 3}, "--embed-dim .* --attention-heads; got 16 and 3"),
    ({"ctc_blank": "<nothing>"}, "--ctc-blank '<nothing>'"),
)
def test_bad_options_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        build(**change)


def build_both_ways(arch, **options):
    return builders.built_both_ways(arch, "sga_translation", builders.task(), "meta", **options)


@pytest.mark.cases(
    "arch layers width inner heads dropout",
    ("nat_ctc_tiny", 3, 128, 512, 4, 0.1),
    # Transformer-base and -big of Vaswani et al. 2017, Table 3.
    ("nat_ctc", 6, 512, 2048, 8, 0.1),
    ("nat_ctc_big", 6, 1024, 4096, 16, 0.3),
)
def test_architectures_are_the_same_from_argparse_and_from_hydra(
    arch, layers, width, inner, heads, dropout
):
    model = build_both_ways(arch)
    for side in (model.encoder, model.decoder):
        assert len(side.layers) == layers
        for layer in side.layers:
            assert layer.self_attn.num_heads == heads
            assert layer.fc1.weight.shape == (inner, width)
            assert layer.dropout_module.p == dropout
    embedding = model.encoder.embed_tokens.weight
    assert embedding.shape == (builders.VOCAB, width)
    decoder = model.decoder
    assert embedding is decoder.embed_tokens.weight is decoder.output_projection.weight


def test_the_command_line_wins_over_the_architecture():
    decoder = build_both_ways("nat_ctc_tiny", dropout=0.2, decoder_layers=1).decoder
    assert len(decoder.layers) == 1 and decoder.dropout_module.p == 0.2
