"""Noise on the denoiser's input: how much, where, which kinds, reproducible."""

import pytest
import torch

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.noise import KINDS, SlotAlphabet, corrupt_slots, parse_noise_mix

BLANK, FIRST, END = 2, 10, 60
ALPHABET = SlotAlphabet(blank=BLANK, first_piece=FIRST, end_piece=END)
PAPER_MIX = {"blank": 0.4, "random": 0.3, "sentence": 0.3}


def rows(count, width, device):
    """Tokens from 100 to 199, none of which is a blank or can come from the alphabet; and the lengths."""
    tokens = torch.randint(100, 200, (count, width), generator=torch.Generator().manual_seed(2))
    return tokens.to(device), torch.full((count,), width, device=device)


def test_share_of_disturbed_slots(device):
    """Up to the ratio: each sentence draws its own share from U(0, ratio)."""
    tokens, lengths = rows(400, 1000, device)
    shares = (corrupt_slots(tokens, lengths, 0.2, {"blank": 1.0}, ALPHABET) != tokens).double().mean(1)
    assert float(shares.max()) <= 0.2 + 0.05
    assert abs(float(shares.mean()) - 0.1) < 0.012
    assert abs(float(shares.std()) - 0.2 / 12**0.5) < 0.012
    assert float(shares.min()) < 0.02


@pytest.mark.parametrize("mix", [*({kind: 1.0} for kind in KINDS), PAPER_MIX])
def test_ratio_zero_changes_nothing_and_the_input_is_never_written(mix, device):
    tokens, lengths = rows(8, 30, device)
    before = tokens.clone()
    assert torch.equal(corrupt_slots(tokens, lengths, 0.0, mix, ALPHABET), before)
    assert not torch.equal(corrupt_slots(tokens, lengths, 1.0, mix, ALPHABET), before)
    assert torch.equal(tokens, before)
    assert corrupt_slots(tokens[:, :0], lengths * 0, 1.0, mix, ALPHABET).shape == (8, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_writes_what_it_says_and_padding_is_never_touched(kind, device):
    """Rows hold disjoint tokens, and padding holds others: a token from elsewhere would show."""
    width, count = 30, 60
    slot = torch.arange(width, device=device).expand(count, -1)
    owner = torch.arange(count, device=device)[:, None].expand(-1, width)
    lengths = owner[:, 0] % (width + 1)
    tokens = (owner * width + slot + 1000).masked_fill(slot >= lengths[:, None], 7)
    noisy = corrupt_slots(tokens, lengths, 1.0, {kind: 1.0}, ALPHABET)
    changed = noisy != tokens
    written = noisy[changed]
    assert written.numel() > 50 and not bool((changed & (slot >= lengths[:, None])).any())
    if kind in ("blank", "mask"):
        assert set(written.tolist()) == {BLANK if kind == "blank" else END}
    elif kind == "random":
        pieces = set(written.tolist())
        assert pieces <= set(range(FIRST, END)) and len(pieces) > 0.7 * (END - FIRST)
        few = corrupt_slots(*rows(100, 100, device), 1.0, {"random": 1.0}, SlotAlphabet(BLANK, 10, 14))
        assert set(few[few < 100].tolist()) == {10, 11, 12, 13}
    else:
        assert torch.equal((written - 1000) // width, owner[changed]), "a token of another sentence, or padding"
        source = (written - 1000) % width
        assert bool((source < lengths[owner[changed]]).all())
        distances = set((source - slot[changed]).tolist())
        assert distances == {-1} if kind == "repeat" else len(distances) > 10, "repetition copies the slot to the left"


def test_mix_gives_the_shares_asked_for_and_the_seed_decides(device):
    """40 / 30 / 30: blanks and pieces can be told apart from tokens of the sentence."""
    tokens, lengths = rows(300, 200, device)
    noisy, other = (corrupt_slots(tokens, lengths, 1.0, PAPER_MIX, ALPHABET) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(corrupt_slots(tokens, lengths, 1.0, PAPER_MIX, ALPHABET), noisy)
    assert not torch.equal(noisy, other)
    written = noisy[noisy != tokens]
    shares = [written == BLANK, (written >= FIRST) & (written < END), written >= 100]
    assert [float(part.double().mean()) for part in shares] == pytest.approx([0.4, 0.3, 0.3], abs=0.02)


def test_parse_noise_mix_normalises():
    assert parse_noise_mix("blank=0.4,random=0.3,sentence=0.3") == pytest.approx(PAPER_MIX)
    assert parse_noise_mix(" repeat=3 , blank=1") == pytest.approx({"repeat": 0.75, "blank": 0.25})


@pytest.mark.parametrize("text", ["deletion=1", "blank", "blank=x", "blank=-1,random=1", "blank=0", "", "blank=inf"])
def test_parse_noise_mix_refuses_and_names_the_text(text):
    with pytest.raises(ValueError, match="--denoise-noise-mix") as error:
        parse_noise_mix(text)
    assert repr(text.split(",")[0]) in str(error.value)


def test_parse_noise_mix_refuses_a_kind_that_is_named_twice():
    with pytest.raises(ValueError, match="--denoise-noise-mix names blank twice"):
        parse_noise_mix("blank=0.4,random=0.1,blank=0.5")


def test_the_noise_of_the_paper_and_of_the_authors_code_have_names():
    """Section 4.4: deletion or repetition. The authors: 40 % blank, 30 % random piece, 30 % of the sentence; the default."""
    assert parse_noise_mix("paper") == {"blank": 0.5, "repeat": 0.5}
    assert parse_noise_mix("authors") == pytest.approx(PAPER_MIX) == parse_noise_mix(SGACTCConfig.denoise_noise_mix)
    with pytest.raises(ValueError, match="must be paper or authors, or look like blank=0.4,random=0.6; got 'ours'"):
        parse_noise_mix("ours")
