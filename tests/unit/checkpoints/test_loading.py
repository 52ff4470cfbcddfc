"""Test loading tensors into a module: accounting, tolerances, the report, fingerprints."""

import pytest
import torch
from torch import nn

from fairseq_plugins.checkpoints import fingerprint, load
from fairseq_plugins.checkpoints.loading import LoadReport, fold


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5)
        self.output.weight = self.words.weight
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))


def tied_tensors():
    words, bias = torch.randn(5, 3), torch.randn(5)
    return {"words.weight": words, "output.bias": bias, "steps": torch.tensor([7])}


def test_every_tensor_is_loaded_and_reported():
    module, tensors = Tied(), tied_tensors()
    report = load(module, tensors)
    assert report == LoadReport(tuple(module.state_dict()), reasons={"output.weight": "tied"})
    assert set(report.loaded) == {"words.weight", "output.weight", "output.bias", "steps"}
    assert torch.equal(module.words.weight, tensors["words.weight"])
    assert module.output.weight is module.words.weight
    assert int(module.steps) == 7


def test_unaccounted_tensors_are_refused_and_nothing_changes():
    module = Tied()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    tensors = {"words.weight": torch.randn(4, 3), "steps": torch.tensor([7])}
    tensors["extra.weight"] = torch.ones(2, 2)
    message = (
        r"missing tensors: output\.bias \(5,\); surplus tensors: extra\.weight \(2, 2\); "
        r"wrong shapes: words\.weight \(4, 3\) instead of \(5, 3\)"
    )
    with pytest.raises(ValueError, match=message):
        load(module, tensors, allow_missing=["output.bia"])  # matches no full name
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_tensors_that_may_be_missing_keep_their_values():
    module, tensors = Tied(), tied_tensors()
    bias = module.output.bias.detach().clone()
    del tensors["output.bias"]
    report = load(module, tensors, allow_missing=[r"output\..*"])
    assert report.initialised == ("output.bias",)
    assert torch.equal(module.output.bias, bias)


def test_the_summary_folds_layers():
    pairs = {"a.0.b": "x.1.y", "a.1.b": "x.3.y", "c.4.d": "z"}
    assert list(fold(pairs.items())) == ["a.{0..1}.b from x.{1,3}.y", "c.4.d from z"]
    names = tuple(f"layers.{index}.fc1.bias" for index in range(12))
    report = LoadReport(names, ("a.0.b", "a.2.b"), ("version",), {"version": "counter"})
    for part in ("layers.{0..11}.fc1.bias", "a.{0,2}.b", "version (counter)"):
        assert part in report.summary()


def test_the_fingerprint_depends_on_names_shapes_and_bits_alone():
    tensors = tied_tensors()
    words, actual = tensors["words.weight"], fingerprint(tensors)
    assert len(bytes.fromhex(actual)) >= 16
    assert fingerprint(dict(reversed(list(tensors.items())))) == actual
    strided = words.t().contiguous().t()
    assert fingerprint({**tensors, "words.weight": strided.double()}) == actual
    flipped = words.clone()
    flipped.view(torch.int32)[4, 2] ^= 1
    assert fingerprint({**tensors, "words.weight": flipped}) != actual
    assert fingerprint({**tensors, "words.weight": words.reshape(3, 5)}) != actual
    renamed = {name.replace("words", "word"): tensor for name, tensor in tensors.items()}
    assert fingerprint(renamed) != actual
    half = {name: tensor.half() for name, tensor in tensors.items()}
    rounded = {name: tensor.float() for name, tensor in half.items()}
    assert fingerprint(half) == fingerprint(rounded) != actual
