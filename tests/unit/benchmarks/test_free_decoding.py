"""The benchmark of free generation decodes what it says: lengths, iterations, passes; its floor by hand. No time is asserted."""

from typing import Any, List

import pytest
import torch

from benchmarks import free_decoding
from benchmarks.systems import Sizes, batch, dictionary, prompted_lm, sga
from fairseq_plugins.ops import linear

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")
NAMES = [
    "SGA 0 iterations", "SGA 0 iterations + denoiser", "SGA 2 iterations", "SGA 2 iterations + denoiser",
    "SGA 4 iterations", "SGA 4 iterations + denoiser", "SGA 8 iterations", "SGA 8 iterations + denoiser",
    "MSP beam 1", "MSP beam 4", "SGA 4 iterations + denoiser, packed", "MSP by torch's own products, beam 1",
]  # fmt: skip


def counted(model: Any, method: str, monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """Sizes of the batches that a method of the model is called with."""
    calls: List[int] = []
    original = getattr(model, method)

    def spy(*args: Any) -> Any:
        calls.append(args[0].numel() if torch.is_tensor(args[0]) else 0)
        return original(*args)

    monkeypatch.setattr(model, method, spy)
    return calls


@torch.no_grad()
def test_every_system_does_what_its_name_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = free_decoding.systems(SIZES, dictionary(SIZES.vocab), CPU)
    assert list(found) == NAMES
    spies = {
        id(model): (counted(model, "fill_masks", monkeypatch), counted(model, "align", monkeypatch))
        for model in (found[NAMES[0]][0], found[NAMES[-2]][0])
    }
    for name, (model, decode) in found.items():
        filled, aligned = spies.get(id(model), ([], []))
        for length in (9, 12):  # the second call must forget the length of the first
            filled.clear(), aligned.clear()
            best = [sentence[0] for sentence in decode(batch(torch.tensor([9, 7]), SIZES.vocab, CPU), length)]
            if name.startswith("MSP"):
                assert [len(one["tokens"]) for one in best] == [length + 1] * 2, "and </s>"
                continue
            iterations = int(name.split()[1])
            assert filled == [2 * length] * iterations and len(aligned) == (iterations == 0)
            assert [one["steps"] for one in best] == [int("denoiser" in name)] * 2
            if iterations and "denoiser" not in name:
                assert [len(one["tokens"]) for one in best] == [length] * 2


@torch.no_grad()
def test_one_system_is_packed_and_one_does_without_one_dnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MIN_WEIGHTS", 1)
    found = free_decoding.systems(SIZES, dictionary(SIZES.vocab), CPU)
    tables = [found[name][0].masked_lm.output_weight for name in (NAMES[5], NAMES[-2])]
    assert [hasattr(table, "one_dnn") for table in tables] == [False, True] and torch.equal(*tables)
    seen = []
    monkeypatch.setattr(found[NAMES[-1]][0].decoder, "forward", lambda *args, **kwargs: seen.append(enabled()) or 1 / 0)
    for name in ("MSP beam 1", NAMES[-1]):
        with pytest.raises(ZeroDivisionError):
            found[name][1](batch(torch.tensor([6]), SIZES.vocab, CPU), 8)
    assert seen == [True, False] and enabled()


def enabled() -> bool:
    return bool(torch.backends.mkldnn.enabled)


def test_tokens_of_each_iteration_by_hand() -> None:
    assert free_decoding.unit_tokens(25, 0) == ([50], [50])
    assert free_decoding.unit_tokens(25, 2) == ([25, 25], [25, 12])
    assert free_decoding.unit_tokens(25, 4) == ([25] * 4, [25, 18, 12, 6])


@pytest.mark.parametrize(
    ("name", "weights", "tables", "through", "projected"),
    [
        ("SGA 0 iterations", 2, 1, 5 + 10, 10),
        ("SGA 4 iterations", 5, 4, 5 + 4 * 5, 5 + 3 + 2 + 1),
        ("SGA 4 iterations + denoiser", 6, 5, 5 + 4 * 5 + 10, 5 + 3 + 2 + 1 + 10),
        ("SGA 4 iterations + denoiser, packed", 6, 5, 5 + 4 * 5 + 10, 5 + 3 + 2 + 1 + 10),
        ("MSP beam 1", 2 + 6, 6, 2 * 5 + 6, 6),
        ("MSP by torch's own products, beam 1", 2 + 6, 6, 2 * 5 + 6, 6),
        ("MSP beam 4", 2 + 6, 6, 2 * 5 + 4 * 6, 4 * 6),
    ],
)
def test_the_floor_by_hand(name: str, weights: int, tables: int, through: int, projected: int) -> None:
    """Layers have 12 C^2 weights, 9 C biases and 4 C of layer norms, 4 bytes each; source and target 5 tokens, and MSP's </s>."""
    model = prompted_lm(SIZES, dictionary(60), CPU) if name.startswith("MSP") else sga(SIZES, CPU)
    layers = 2 * (12 * 16**2 + 13 * 16)
    reading = {"gflops": 1e9, "gb_per_s": 1e-9}
    assert free_decoding.least_seconds(SIZES, 5, name, model, reading) == 4 * (weights * layers + tables * 60 * 16)
    computing = {"gflops": 1e-9, "gb_per_s": 1e9}
    flops = through * 2 * 2 * 12 * 16**2 + projected * 2 * 60 * 16
    assert free_decoding.least_seconds(SIZES, 5, name, model, computing) == flops


def test_both_models_are_equally_large() -> None:
    """The layers of both, and the prompts of three units or stages."""
    sizes = {}
    for name, model in (("SGA", sga(SIZES, CPU)), ("MSP", prompted_lm(SIZES, dictionary(60), CPU))):
        sizes[name] = sum(one.numel() for key, one in model.named_parameters() if ".layers." in key)
        assert sum(one.numel() for key, one in model.named_parameters() if key.endswith(".key")) == 3 * 2 * 3 * 16
    assert sizes["SGA"] == sizes["MSP"]
