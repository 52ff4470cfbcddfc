"""Test the trainable masked LM: sizes, masked positions, the stock criterion, its checkpoints."""

import json
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.masked_lm import MaskedLmLoss

from fairseq_plugins import checkpoints
from fairseq_plugins.masked_lm.training import XLMRMaskedLMConfig, XLMRMaskedLMModel
from tests import builders

ARCHITECTURES = {
    "xlmr_mlm_tiny": (4, 192, 768, 4),
    "xlmr_mlm_small": (6, 256, 1024, 4),
    "xlmr_mlm_base": (12, 768, 3072, 12),
}
SIZES = builders.side("encoder", 2, 16, 24, 2)


def build_model(task=None, **options):
    cfg = {**SIZES, "tokens_per_sample": builders.POSITIONS, **options}
    return XLMRMaskedLMModel.build_model(XLMRMaskedLMConfig(**cfg), task or builders.task())


def build_random_model(seed):
    model = build_model()
    builders.randomise(model, seed)
    return model.eval()


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    model = builders.built_both_ways(arch, "tlm_pretraining", builders.task(), "meta")
    sizes = model.encoder.sizes
    assert (sizes.layers, sizes.embed_dim, sizes.ffn_dim, sizes.heads) == ARCHITECTURES[arch]
    assert (sizes.max_positions, sizes.vocab_size) == (512, builders.VOCAB)


def test_it_starts_from_the_initialisation_of_bert():
    model = build_model()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad
        if parameter.dim() == 2:
            assert 0.015 < float(parameter.detach().std()) < 0.025, name
        else:
            is_scale = "norm" in name and name.endswith("weight")
            assert parameter.unique().tolist() == [float(is_scale)], name
    assert not bool(model.encoder.sentence_encoder.embed_tokens.weight[builders.PAD].any())


def test_stock_criterion_gives_the_cross_entropy_of_the_masked_tokens():
    model = build_model().eval()
    sample = builders.batch(builders.source_rows([7, 5]))
    target = torch.full((2, 7), builders.PAD)
    target[0, 2], target[0, 3], target[1, 1] = 5, 6, 7
    sample.update(target=target, ntokens=12)
    inputs = sample["net_input"]
    inputs["positions"] = torch.arange(2, 9).repeat(2, 1)
    masked = target.ne(builders.PAD)
    logits = model(**inputs)[0]
    torch.testing.assert_close(model(**inputs, masked_tokens=masked)[0], logits[masked])
    loss, size, _ = MaskedLmLoss(SimpleNamespace(tpu=False), builders.task())(model, sample)
    expected = F.cross_entropy(logits[masked], target[masked], reduction="sum")
    torch.testing.assert_close(loss, expected)
    assert size == 3
    loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_positions_that_restart_change_the_output():
    model, tokens = build_random_model(1), builders.source_rows([8])[0][None]
    default = model(tokens)[0]
    assert torch.equal(model(tokens, positions=torch.arange(2, 10)[None])[0], default)
    restarted = model(tokens, positions=torch.tensor([[2, 3, 4, 5, 2, 3, 4, 5]]))[0]
    assert float((restarted - default).detach().abs().max()) > 1e-2


def test_its_checkpoint_is_read_as_a_frozen_model(tmp_path):
    """The checkpoint has fairseq's XLM-R layout, which SGA's --pretrained-mlm reads."""
    model = build_random_model(3)
    cfg = {"_name": "xlmr_mlm_tiny", **SIZES, "max_positions": builders.POSITIONS}
    checkpoint = {"model": model.state_dict(), "args": None, "cfg": {"model": cfg}}
    torch.save(checkpoint, tmp_path / "model.pt")
    file = checkpoints.read_masked_lm(tmp_path / "model.pt")
    expected = dict(model.encoder.named_parameters())
    assert set(file.tensors) == set(expected)
    assert all(torch.equal(file.tensors[name], expected[name]) for name in expected)
    assert (file.sizes["heads"], file.sizes["max_positions"]) == (2, 40)
    assert model.max_positions() == 40


def write_masked_lm(folder):
    masked_lm = builders.masked_lm(seed=4)
    sizes, state = vars(masked_lm.sizes), masked_lm.state_dict()
    checkpoints.write_masked_lm(folder, sizes, state, dtype=torch.float32)
    return masked_lm


def test_init_from_mlm_loads_the_weights_and_checks_the_sizes(tmp_path):
    masked_lm, path = write_masked_lm(tmp_path), str(tmp_path)
    model = build_model(init_from_mlm=path)
    tokens = torch.tensor([[builders.BOS, 5, 9, builders.EOS]])
    assert torch.equal(model.eval()(tokens)[0], masked_lm.eval()(tokens))
    task = builders.task()
    task.from_checkpoint = True  # a checkpoint has the weights, and needs no file
    build_model(task, init_from_mlm=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"--init-from-mlm .*encoder.layers.*3"):
        build_model(init_from_mlm=path, encoder_layers=3)
    checkpoint = {"model": model.state_dict(), "args": None, "cfg": None}
    torch.save(checkpoint, tmp_path / "no_heads.pt")
    model = build_model(init_from_mlm=str(tmp_path / "no_heads.pt"))  # heads are the option's
    for layers, message in ((0, "must be at least 1; got 0"), (None, "is needed")):
        with pytest.raises(ValueError, match=f"--encoder-layers {message}"):
            build_model(encoder_layers=layers)


def test_init_from_mlm_refuses_a_different_dictionary(tmp_path, caplog):
    """Entry 5 of the data's dictionary is p1; in the other masked LM it is p2."""
    caplog.set_level("INFO")
    write_masked_lm(tmp_path)

    def build():
        build_model(init_from_mlm=str(tmp_path))

    def write_tokenizer(entries):
        vocab = {entry: row for row, entry in enumerate(entries)}
        content = json.dumps({"model": {"vocab": vocab}})
        (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")

    build()
    assert "only the number of rows was compared" in caplog.text
    symbols = list(builders.dictionary().symbols)
    swapped = [*symbols[:5], "p2", "p1", *symbols[7:]]
    for entries in (symbols, symbols[:7]):
        write_tokenizer(entries)
        build()
    write_tokenizer(swapped)
    with pytest.raises(ValueError, match="beside it has 'p2' as entry 5, .* 'p1'"):
        build()
    builders.write_symbols(tmp_path / "dict.txt", symbols[4:])  # precedes the tokenizer
    build()
    builders.write_symbols(tmp_path / "dict.txt", swapped[4:])
    with pytest.raises(ValueError, match=r"beside it has 'p2' as entry 5, .* 'p1'"):
        build()
