"""Test noise on the denoiser's input: how much, where, which kinds, reproducible."""

import pytest
import torch

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.noise import KINDS, SlotAlphabet, corrupt_slots, parse_noise_mix

BLANK, FIRST, END = 2, 10, 60
ALPHABET = SlotAlphabet(blank=BLANK, first_piece=FIRST, end_piece=END)
PAPER_MIX = {"blank": 0.4, "random": 0.3, "sentence": 0.3}


def draw_tokens(count, width, device):
    """Draw tokens from 100 to 199, which noise of the alphabet never writes, and lengths."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(100, 200, (count, width), generator=generator)
    return tokens.to(device), torch.full((count,), width, device=device)


def test_each_sentence_draws_its_share_of_noise_up_to_the_ratio(device):
    """U(0, 0.2) has mean 0.1 and standard deviation 0.2 / sqrt(12)."""
    tokens, lengths = draw_tokens(400, 1000, device)
    noisy = corrupt_slots(tokens, lengths, 0.2, {"blank": 1.0}, ALPHABET)
    shares = (noisy != tokens).double().mean(1)
    assert float(shares.max()) <= 0.2 + 0.05
    assert abs(float(shares.mean()) - 0.1) < 0.012
    assert abs(float(shares.std()) - 0.2 / 12**0.5) < 0.012
    assert float(shares.min()) < 0.02


@pytest.mark.parametrize("mix", [*({kind: 1.0} for kind in KINDS), PAPER_MIX])
def test_ratio_zero_changes_nothing_and_the_input_is_never_overwritten(mix, device):
    tokens, lengths = draw_tokens(8, 30, device)
    before = tokens.clone()
    assert torch.equal(corrupt_slots(tokens, lengths, 0.0, mix, ALPHABET), before)
    assert not torch.equal(corrupt_slots(tokens, lengths, 1.0, mix, ALPHABET), before)
    assert torch.equal(tokens, before)
    assert corrupt_slots(tokens[:, :0], lengths * 0, 1.0, mix, ALPHABET).shape == (8, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_noise_stays_in_its_sentence(kind, device):
    """Rows hold disjoint tokens, and padding holds others: a token from elsewhere would show."""
    width, count = 30, 60
    slot = torch.arange(width, device=device).expand(count, -1)
    sentence = torch.arange(count, device=device)[:, None].expand(-1, width)
    lengths = sentence[:, 0] % (width + 1)
    is_padding = slot >= lengths[:, None]
    tokens = (sentence * width + slot + 1000).masked_fill(is_padding, 7)
    noisy = corrupt_slots(tokens, lengths, 1.0, {kind: 1.0}, ALPHABET)
    changed = noisy != tokens
    noise = noisy[changed]
    assert noise.numel() > 50 and not bool((changed & is_padding).any())
    if kind == "blank":
        assert set(noise.tolist()) == {BLANK}
    elif kind == "mask":
        assert set(noise.tolist()) == {END}
    elif kind == "random":
        pieces = set(noise.tolist())
        assert pieces <= set(range(FIRST, END)) and len(pieces) > 0.7 * (END - FIRST)
    else:
        assert torch.equal((noise - 1000) // width, sentence[changed])
        origin = (noise - 1000) % width
        assert bool((origin < lengths[sentence[changed]]).all())
        distances = set((origin - slot[changed]).tolist())
        if kind == "repeat":
            assert distances == {-1}, "a copy of the slot to the left"
        else:
            assert len(distances) > 10


def test_a_mix_has_its_shares_and_the_seed_decides(device):
    """Blanks and pieces can be told from tokens of the sentence, which begin at 100."""
    tokens, lengths = draw_tokens(300, 200, device)
    first, second = (corrupt_slots(tokens, lengths, 1.0, PAPER_MIX, ALPHABET) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(corrupt_slots(tokens, lengths, 1.0, PAPER_MIX, ALPHABET), first)
    assert not torch.equal(first, second)
    noise = first[first != tokens]
    kinds = noise == BLANK, (noise >= FIRST) & (noise < END), noise >= 100
    shares = [float(kind.double().mean()) for kind in kinds]
    assert shares == pytest.approx([0.4, 0.3, 0.3], abs=0.02)


def test_weights_of_a_mix_are_normalised():
    assert parse_noise_mix("blank=0.4,random=0.3,sentence=0.3") == pytest.approx(PAPER_MIX)
    mix = parse_noise_mix(" repeat=3 , blank=1")
    assert mix == pytest.approx({"repeat": 0.75, "blank": 0.25})


@pytest.mark.cases(
    "text",
    "deletion=1",
    "blank",
    "blank=x",
    "blank=-1,random=1",
    "blank=0",
    "",
    "blank=inf",
    "blank=0.4,random=0.1,blank=0.5",
)
def test_a_wrong_mix_is_named(text):
    culprit = "blank" if text.count("blank") == 2 else repr(text.split(",")[0])
    with pytest.raises(ValueError, match=f"--denoise-noise-mix .*{culprit}"):
        parse_noise_mix(text)


def test_the_noise_of_the_paper_and_of_the_authors_code_have_names():
    """Section 4.4 deletes and repeats; the default is 40 % blank, 30 % each of two pieces."""
    assert parse_noise_mix("paper") == {"blank": 0.5, "repeat": 0.5}
    assert (
        parse_noise_mix("authors")
        == pytest.approx(PAPER_MIX)
        == parse_noise_mix(SGACTCConfig.denoise_noise_mix)
    )
    with pytest.raises(
        ValueError, match="must be paper or authors, or look like blank=0.4,random=0.6; got 'ours'"
    ):
        parse_noise_mix("ours")
