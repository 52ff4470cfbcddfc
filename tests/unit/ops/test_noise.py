"""Noise on the denoiser's input: how much, where, which kinds, reproducible."""

import pytest
import torch

from fairseq_plugins.ops.noise import SlotAlphabet, corrupt_slots, parse_noise_mix

BLANK, FIRST, END = 2, 10, 60
ALPHABET = SlotAlphabet(blank=BLANK, first_piece=FIRST, end_piece=END)
PAPER_MIX = {"blank": 0.4, "random": 0.3, "sentence": 0.3}


def rows(count, width, device, low=100, high=200):
    """Tokens from 100 to 199: none of them is a blank or can come from the alphabet."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(low, high, (count, width), generator=generator).to(device)


def test_share_of_disturbed_slots(device):
    """Up to the ratio: each sentence draws its own share from U(0, ratio)."""
    tokens = rows(400, 1000, device)
    lengths = torch.full((400,), 1000, device=device)
    noisy = corrupt_slots(tokens, lengths, 0.2, {"blank": 1.0}, ALPHABET)
    shares = (noisy != tokens).double().mean(1)
    assert float(shares.max()) <= 0.2 + 0.05
    assert abs(float(shares.mean()) - 0.1) < 0.012
    assert abs(float(shares.std()) - 0.2 / 12**0.5) < 0.012
    assert float(shares.min()) < 0.02


@pytest.mark.parametrize("mix", [{"blank": 1.0}, {"random": 1.0}, {"sentence": 1.0}, {"repeat": 1.0}, PAPER_MIX])
def test_ratio_zero_changes_nothing_and_the_input_is_never_written(mix, device):
    tokens = rows(8, 30, device)
    before, lengths = tokens.clone(), torch.full((8,), 30, device=device)
    assert torch.equal(corrupt_slots(tokens, lengths, 0.0, mix, ALPHABET), before)
    assert not torch.equal(corrupt_slots(tokens, lengths, 1.0, mix, ALPHABET), before)
    assert torch.equal(tokens, before)


@pytest.mark.parametrize("mix", [{"blank": 1.0}, {"random": 1.0}, {"sentence": 1.0}, {"repeat": 1.0}])
def test_padding_is_never_touched(mix, device):
    tokens = rows(50, 20, device)
    lengths = torch.arange(50, device=device) % 21
    for _ in range(5):
        noisy = corrupt_slots(tokens, lengths, 1.0, mix, ALPHABET)
        behind = torch.arange(20, device=device) >= lengths[:, None]
        assert torch.equal(noisy[behind], tokens[behind])


def test_each_kind_writes_what_it_says(device):
    """Rows hold disjoint tokens, and padding holds others: a token from elsewhere would show."""
    width, count = 30, 60
    inside = torch.arange(count * width).reshape(count, width).to(device) + 1000
    lengths = (torch.arange(count, device=device) % width) + 1
    behind = torch.arange(width, device=device) >= lengths[:, None]
    tokens = inside.masked_fill(behind, 7)
    changed = {}
    for kind in ("blank", "random", "sentence", "repeat"):
        noisy = corrupt_slots(tokens, lengths, 1.0, {kind: 1.0}, ALPHABET)
        changed[kind] = noisy != tokens
        written = noisy[changed[kind]]
        owner = (torch.arange(count, device=device)[:, None].expand(-1, width))[changed[kind]]
        assert written.numel() > 50
        if kind == "blank":
            assert bool((written == BLANK).all())
        elif kind == "random":
            assert bool(((written >= FIRST) & (written < END)).all())
            assert len(set(written.tolist())) > 0.7 * (END - FIRST)
            assert {int(written.min()), int(written.max())} <= set(range(FIRST, END))
        else:
            assert torch.equal((written - 1000) // width, owner), "a token of another sentence, or padding"
            slot = torch.arange(width, device=device).expand(count, -1)[changed[kind]]
            source = (written - 1000) % width
            assert bool((source < lengths[owner]).all())
            if kind == "repeat":
                assert bool(((source - slot).abs() == 1).all()), "repetition copies a neighbour"
            else:
                assert len(set((source - slot).tolist())) > 10


def test_random_reaches_the_first_and_the_last_piece_only(device):
    tokens, lengths = rows(100, 100, device), torch.full((100,), 100, device=device)
    noisy = corrupt_slots(tokens, lengths, 1.0, {"random": 1.0}, SlotAlphabet(BLANK, 10, 14))
    assert set(noisy[noisy != tokens].tolist()) == {10, 11, 12, 13}


def test_mix_gives_the_shares_asked_for(device):
    """40 / 30 / 30: blanks and pieces can be told apart from tokens of the sentence."""
    tokens = rows(300, 200, device)
    lengths = torch.full((300,), 200, device=device)
    noisy = corrupt_slots(tokens, lengths, 1.0, PAPER_MIX, ALPHABET)
    blanks = int((noisy == BLANK).sum())
    pieces = int(((noisy >= FIRST) & (noisy < END)).sum())
    sentence = int(((noisy != tokens) & (noisy >= 100)).sum())
    total = blanks + pieces + sentence
    assert abs(blanks / total - 0.4) < 0.02
    assert abs(pieces / total - 0.3) < 0.02
    assert abs(sentence / total - 0.3) < 0.02


def test_the_seed_decides(device):
    tokens, lengths = rows(6, 40, device), torch.full((6,), 40, device=device)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(corrupt_slots(tokens, lengths, 0.8, PAPER_MIX, ALPHABET))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_rows_without_slots(device):
    tokens = torch.empty(2, 0, dtype=torch.int64, device=device)
    lengths = torch.zeros(2, dtype=torch.int64, device=device)
    for kind in ("blank", "random", "sentence", "repeat"):
        assert corrupt_slots(tokens, lengths, 1.0, {kind: 1.0}, ALPHABET).shape == (2, 0)


def test_parse_noise_mix_normalises():
    assert parse_noise_mix("blank=0.4,random=0.3,sentence=0.3") == pytest.approx(PAPER_MIX)
    mix = parse_noise_mix(" repeat=3 , blank=1")
    assert {kind: share for kind, share in mix.items() if share > 0} == pytest.approx({"repeat": 0.75, "blank": 0.25})


@pytest.mark.parametrize(
    "text", ["deletion=1", "blank", "blank=x", "blank=-0.5,random=1", "blank=0", "", "blank=nan", "blank=inf", "=1"]
)
def test_parse_noise_mix_refuses_and_names_the_text(text):
    with pytest.raises(ValueError) as error:
        parse_noise_mix(text)
    assert repr(text) in str(error.value) or text.split("=")[0] in str(error.value)
    assert "blank" in str(error.value)  # the valid kinds
